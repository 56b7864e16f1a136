#include "lockstep/network_file/graph_check.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/json_node.h"

namespace lockstep::network_file {
namespace {

using nlohmann::json;

std::vector<int64_t> numbers_of(const json& list) {
  std::vector<int64_t> numbers;
  for (const json& one : list) numbers.push_back(whole_number(one.at("as_int")));
  return numbers;
}

/// The name of an argument that is a tensor.
std::string tensor_name(const json& argument) {
  return argument.at("as_tensor").at("name").get<std::string>();
}

/// Whether an argument, which may be a list of tensors, has a tensor of one of these names.
bool mentions(const json& argument, const std::set<std::string>& names) {
  if (argument.is_object() && argument.contains("name"))
    return names.contains(argument.at("name").get<std::string>());
  return argument.is_structured() &&
         std::ranges::any_of(argument, [&](const json& part) { return mentions(part, names); });
}

bool has_any_of(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

/// Checks a graph against the description of its file: what LibTorch would run wrong, or not at all.
class Checker {
 public:
  Checker(const json& program, const Graph& graph, NetworkFile& file)
      : graph_(program.at("graph_module").at("graph")), described_(graph), file_(file) {
    const json& specs = program.at("graph_module").at("signature").at("input_specs");
    // All other inputs are constants, which LibTorch reads from the archive.
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs.at(i).contains("user_input")) inputs_.push_back(tensor_name(graph_.at("inputs").at(i)));
    }
  }

  void check() {
    check_inputs();
    check_results();
    for (const json& node : graph_.at("nodes")) check_node(node);
    for (const Tensor& parameter : file_.parameters)
      require(announced_.contains(&parameter), fmt::format("no gradient for '{}'", parameter.name));
  }

 private:
  void require(bool holds, const std::string& what) const {
    if (!holds) throw Error(fmt::format("its graph '{}' has {}", described_.name, what));
  }

  void require_tensor(const std::string& name, const std::vector<int64_t>& shape, Type type,
                      const std::string& what) const {
    const json& entry = graph_.at("tensor_values").at(name);
    const std::vector<int64_t> sizes = numbers_of(entry.at("sizes"));
    require(sizes == shape && type_of_number(whole_number(entry.at("dtype"))) == type,
            fmt::format("{} of shape [{}], not [{}], or of another type", what, fmt::join(sizes, ", "),
                        fmt::join(shape, ", ")));
  }

  void check_inputs() const {
    const size_t wanted =
        file_.parameters.size() + file_.buffers.size() + file_.inputs.size() + file_.targets.size() + 1;
    require(inputs_.size() == wanted, fmt::format("{} inputs, not {}", inputs_.size(), wanted));
    auto input = inputs_.begin();
    const auto require_next = [&](const std::string& name, const std::vector<int64_t>& shape, Type type) {
      require_tensor(*input++, shape, type, fmt::format("an input for '{}'", name));
    };
    for (const auto* tensors : {&file_.parameters, &file_.buffers}) {
      for (const Tensor& tensor : *tensors) {
        const json& entry = graph_.at("tensor_values").at(*input);
        require_next(tensor.name, tensor.shape, tensor.type);
        require(numbers_of(entry.at("strides")) == tensor.strides,
                fmt::format("an input for '{}' of another layout", tensor.name));
      }
    }
    for (const auto* samples : {&file_.inputs, &file_.targets}) {
      for (const Sample& sample : *samples) {
        std::vector<int64_t> shape{described_.batch};
        shape.insert(shape.end(), sample.shape.begin(), sample.shape.end());
        require_next(sample.name, shape, sample.type);
      }
    }
    require_next("the scale of the loss", {}, Type::kFloat32);
  }

  /// The loss, the markers of the gradients, and the buffers that change.
  void check_results() const {
    const json& results = graph_.at("outputs");
    size_t next = 1 + file_.parameters.size();
    const auto changing = std::ranges::count_if(file_.buffers, &Tensor::changes);
    const size_t wanted = next + static_cast<size_t>(changing);
    require(results.size() == wanted, fmt::format("{} results, not {}", results.size(), wanted));
    require_tensor(tensor_name(results.at(0)), {}, Type::kFloat32, "a loss");
    for (const Tensor& buffer : file_.buffers) {
      if (buffer.changes)
        require_tensor(tensor_name(results.at(next++)), buffer.shape, buffer.type,
                       fmt::format("a result for '{}'", buffer.name));
    }
  }

  void check_node(const json& node) {
    const auto target = node.at("target").get<std::string>();
    const json& arguments = node.at("inputs");
    for (const json& given : arguments) {
      require(!mentions(given.at("arg"), given_away_),
              "a gradient that it uses after it gave it away: export the network again");
      // Attention on GPUs drops by itself.
      if (given.at("name") == "dropout_p" && given.at("arg").value("as_float", 0.0) > 0)
        file_.draws_random_numbers = true;
    }
    if (target == "torch.ops.lockstep.grad_ready.default") {
      check_gradient(tensor_name(arguments.at(0).at("arg")),
                     static_cast<uint64_t>(whole_number(arguments.at(1).at("arg").at("as_int"))));
    } else if (target == "torch.ops.lockstep.uses.default") {
      file_.announces_uses = true;
    } else if (target != "torch.ops.lockstep.forward_done.default") {
      check_operation(target);
      // LibTorch 2.11 runs a tensor times a number into memory that is too small if the tensor is a view with
      // gaps on the CPU; export() writes the number as a tensor.
      require(described_.device != "cpu" || !target.starts_with("torch.ops.aten.mul.") ||
                  arguments.at(1).at("arg").contains("as_tensor"),
              "a tensor times a number, which LibTorch runs wrong: export the network again");
    }
  }

  void check_gradient(const std::string& gradient, uint64_t index) {
    require(index < file_.parameters.size() && announced_.insert(&file_.parameters[index]).second,
            fmt::format("a gradient of parameter {} too many", index));
    const Tensor& parameter = file_.parameters[index];
    require_tensor(gradient, parameter.shape, Type::kFloat32,
                   fmt::format("a gradient of '{}'", parameter.name));
    given_away_.insert(gradient);
  }

  /// Operations compute with tensors that they are given; those that reach for files or memory are refused.
  void check_operation(const std::string& target) {
    const bool computes = target.starts_with("torch.ops.aten.") || target.starts_with("torch.ops.prims.") ||
                          target.starts_with("torch.ops.mkldnn.");
    const bool reaches_out =
        has_any_of(target, {"from_file", "from_blob", "set_data", ".set_.", "save", "load"});
    require(computes && !reaches_out, fmt::format("the operation '{}', which is not allowed", target));
    if (has_any_of(target, {"dropout", "bernoulli", "rand", "normal", "nomial", "rrelu", "uniform",
                            "exponential", "cauchy", "geometric", "poisson"}))
      file_.draws_random_numbers = true;
  }

  const json& graph_;
  const Graph& described_;
  NetworkFile& file_;
  /// Names of the inputs that a step is given.
  std::vector<std::string> inputs_;
  /// Parameters whose gradients the graph has given away so far, and the names of these gradients.
  std::set<const Tensor*> announced_;
  std::set<std::string> given_away_;
};

constexpr uint64_t kTooMany = uint64_t{1} << 62;

/// Elements from the beginning of its storage to the last one that a tensor uses; kTooMany where they cannot
/// be.
uint64_t elements_reached(const json& tensor) {
  const std::vector<int64_t> sizes = numbers_of(tensor.at("sizes"));
  const std::vector<int64_t> strides = numbers_of(tensor.at("strides"));
  const auto offset = whole_number(tensor.at("storage_offset").at("as_int"));
  constexpr int64_t kMost = int64_t{1} << 40;
  if (sizes.size() != strides.size() || offset < 0 || offset > kMost) return kTooMany;
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    if (sizes[i] < 0 || strides[i] < 0 || sizes[i] > kMost || strides[i] > kMost / sizes[i] || last > kMost) {
      return kTooMany;
    }
    last += (sizes[i] - 1) * strides[i];
  }
  return static_cast<uint64_t>(last) + 1;
}

json parse(const std::string& text, const std::string& what) {
  json content = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (content.is_discarded()) throw Error(fmt::format("{} is not JSON", what));
  return content;
}

}  // namespace

void check_graph(const std::string& text, const Graph& graph, NetworkFile& file) {
  const json program = parse(text, fmt::format("its graph '{}'", graph.name));
  try {
    Checker(program, graph, file).check();
  } catch (const json::exception&) {
    throw Error(fmt::format("its graph '{}' is not one of torch.export", graph.name));
  }
}

void check_constants(const std::string& text,
                     const std::function<uint64_t(const std::string& name)>& size_of) {
  const json content = parse(text, "its list of constants");
  try {
    for (const auto& [name, entry] : content.at("config").items()) {
      if (entry.at("use_pickle").get<bool>()) throw Error(fmt::format("its constant '{}' is pickled", name));
      const json& tensor = entry.at("tensor_meta");
      const std::optional<Type> type = type_of_number(whole_number(tensor.at("dtype")));
      const uint64_t there = size_of(entry.at("path_name").get<std::string>());
      if (!type || elements_reached(tensor) > there / static_cast<uint64_t>(bytes_of(*type))) {
        throw Error(fmt::format("its constant '{}' lies outside of its {} bytes", name, there));
      }
    }
  } catch (const json::exception&) {
    throw Error("its list of constants is not one of torch.export");
  }
}

}  // namespace lockstep::network_file
