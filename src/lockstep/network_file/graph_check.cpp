#include "lockstep/network_file/graph_check.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::network_file {
namespace {

using nlohmann::json;

/// torch.export's numbers of element types (torch/_export/serde/schema.py, ScalarType).
std::optional<Type> type_of_number(int64_t number) {
  constexpr std::pair<int64_t, Type> kTypes[] = {
      {1, Type::kUint8}, {2, Type::kInt8},     {3, Type::kInt16},   {4, Type::kInt32},
      {5, Type::kInt64}, {6, Type::kFloat16},  {7, Type::kFloat32}, {8, Type::kFloat64},
      {12, Type::kBool}, {13, Type::kBfloat16}};
  for (const auto& [known, type] : kTypes) {
    if (known == number) return type;
  }
  return std::nullopt;
}

/// A tensor as the graph describes it.
struct Promise {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::optional<Type> type;
};

std::vector<int64_t> numbers_of(const json& list) {
  std::vector<int64_t> numbers;
  for (const json& one : list) numbers.push_back(one.at("as_int").get<int64_t>());
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

class Checker {
 public:
  Checker(const json& program, const Graph& graph, NetworkFile& file)
      : graph_(program.at("graph_module").at("graph")), asked_(graph), file_(file) {
    const json& signature = program.at("graph_module").at("signature");
    for (const json& spec : signature.at("output_specs")) {
      require(spec.contains("user_output"), "a result of another kind");
    }
    require(signature.at("input_specs").size() == graph_.at("inputs").size() &&
                signature.at("output_specs").size() == graph_.at("outputs").size(),
            "a signature that does not fit it");
    for (size_t i = 0; i < graph_.at("inputs").size(); ++i) {
      const json& spec = signature.at("input_specs").at(i);
      // A constant is an input of the graph that LibTorch reads from the archive.
      if (spec.contains("tensor_constant")) continue;
      require(spec.contains("user_input"), "an input of another kind");
      inputs_.push_back(tensor_name(graph_.at("inputs").at(i)));
    }
  }

  void check() {
    check_inputs();
    check_results();
    check_operations();
  }

 private:
  void require(bool holds, const std::string& what) const {
    if (!holds) throw Error(fmt::format("its graph '{}' has {}", asked_.name, what));
  }

  Promise promise_of(const std::string& tensor) const {
    const json& entry = graph_.at("tensor_values").at(tensor);
    require(entry.at("device").at("type") == asked_.device,
            fmt::format("the tensor '{}' on another device than {}", tensor, asked_.device));
    return {numbers_of(entry.at("sizes")), numbers_of(entry.at("strides")),
            type_of_number(entry.at("dtype").get<int64_t>())};
  }

  void check_inputs() const {
    const size_t wanted =
        file_.parameters.size() + file_.buffers.size() + file_.inputs.size() + file_.targets.size() + 1;
    require(inputs_.size() == wanted, fmt::format("{} inputs, not {}", inputs_.size(), wanted));
    size_t next = 0;
    for (const auto* tensors : {&file_.parameters, &file_.buffers}) {
      for (const Tensor& tensor : *tensors) {
        const Promise found = promise_of(inputs_.at(next++));
        require(found.shape == tensor.shape && found.strides == tensor.strides && found.type == tensor.type,
                fmt::format("an input for '{}' of another shape, layout or type", tensor.name));
      }
    }
    for (const auto* samples : {&file_.inputs, &file_.targets}) {
      for (const Sample& sample : *samples) {
        const Promise found = promise_of(inputs_.at(next++));
        std::vector<int64_t> shape{asked_.batch};
        shape.insert(shape.end(), sample.shape.begin(), sample.shape.end());
        require(found.shape == shape && found.type == sample.type,
                fmt::format("an input for '{}' of shape [{}], not [{}], or of another type", sample.name,
                            fmt::join(found.shape, ", "), fmt::join(shape, ", ")));
      }
    }
    const Promise scale = promise_of(inputs_.at(next));
    require(scale.shape.empty() && scale.type == Type::kFloat32, "no scale of the loss as its last input");
  }

  void check_results() const {
    const json& results = graph_.at("outputs");
    std::vector<const Tensor*> changed;
    for (const Tensor& buffer : file_.buffers) {
      if (buffer.changes) changed.push_back(&buffer);
    }
    const size_t wanted = 1 + file_.parameters.size() + changed.size();
    require(results.size() == wanted, fmt::format("{} results, not {}", results.size(), wanted));
    const Promise loss = promise_of(tensor_name(results.at(0)));
    require(loss.shape.empty() && loss.type == Type::kFloat32, "a loss that is not one fp32 number");
    for (size_t i = 0; i < changed.size(); ++i) {
      const Promise found = promise_of(tensor_name(results.at(1 + file_.parameters.size() + i)));
      require(found.shape == changed[i]->shape && found.type == changed[i]->type,
              fmt::format("a result for '{}' of another shape or type", changed[i]->name));
    }
  }

  void check_operations() {
    std::vector<bool> announced(file_.parameters.size());
    bool forward_done = false;
    std::set<std::string> given_away;
    for (const json& node : graph_.at("nodes")) {
      const auto target = node.at("target").get<std::string>();
      for (const json& given : node.at("inputs")) {
        require(!mentions(given.at("arg"), given_away),
                "a gradient that it uses after it gave it away: export the network again");
      }
      if (target == "torch.ops.lockstep.forward_done.default") {
        require(!forward_done, "two ends of the forward pass");
        forward_done = true;
      } else if (target == "torch.ops.lockstep.grad_ready.default") {
        require(forward_done, "a gradient before the end of the forward pass");
        check_gradient(node, announced);
        given_away.insert(tensor_name(node.at("inputs").at(0).at("arg")));
      } else {
        check_operation(target);
        check_devices(node);
        check_factor(node, target);
      }
    }
    const auto missing = std::ranges::find(announced, false);
    require(missing == announced.end(),
            fmt::format("no gradient for '{}'",
                        missing == announced.end()
                            ? ""
                            : file_.parameters[static_cast<size_t>(missing - announced.begin())].name));
  }

  void check_gradient(const json& node, std::vector<bool>& announced) const {
    const json& arguments = node.at("inputs");
    const auto index = arguments.at(1).at("arg").at("as_int").get<int64_t>();
    require(index >= 0 && index < static_cast<int64_t>(announced.size()) &&
                !announced[static_cast<size_t>(index)],
            fmt::format("a gradient of parameter {} too many", index));
    announced[static_cast<size_t>(index)] = true;
    const Tensor& parameter = file_.parameters[static_cast<size_t>(index)];
    const Promise found = promise_of(tensor_name(arguments.at(0).at("arg")));
    require(found.shape == parameter.shape && found.type == Type::kFloat32,
            fmt::format("a gradient of '{}' that is not shaped like it", parameter.name));
  }

  /// Operations compute with tensors that they are given; those that reach for files or memory are refused.
  void check_operation(const std::string& target) const {
    const bool computes = target.starts_with("torch.ops.aten.") || target.starts_with("torch.ops.prims.") ||
                          target.starts_with("torch.ops.mkldnn.");
    const bool reaches_out =
        has_any_of(target, {"from_file", "from_blob", "set_data", ".set_.", "save", "load"});
    require(computes && !reaches_out, fmt::format("the operation '{}', which is not allowed", target));
    if (has_any_of(target, {"dropout", "bernoulli", ".rand", ".normal", "multinomial"})) {
      file_.draws_random_numbers = true;
    }
  }

  /// A rank runs the graph on a GPU of its own, so an operation may not name one by its number.
  void check_devices(const json& node) const {
    for (const json& given : node.at("inputs")) {
      const json& argument = given.at("arg");
      if (!argument.contains("as_device")) continue;
      const json& device = argument.at("as_device");
      require(device.at("type") == asked_.device && device.at("index").is_null(),
              fmt::format("an operation on another device than {}, or on one of its devices", asked_.device));
    }
  }

  /// LibTorch 2.11 runs a tensor times a number into memory that is too small if the tensor is a view with
  /// gaps on the CPU; export() writes the number as a tensor.
  void check_factor(const json& node, const std::string& target) const {
    if (asked_.device != "cpu" || !target.starts_with("torch.ops.aten.mul.")) return;
    const json& arguments = node.at("inputs");
    require(arguments.size() >= 2 && arguments.at(1).at("arg").contains("as_tensor"),
            "a tensor times a number, which LibTorch runs wrong: export the network again");
  }

  const json& graph_;
  const Graph& asked_;
  /// Names of the inputs that the program gives.
  std::vector<std::string> inputs_;
  NetworkFile& file_;
};

constexpr uint64_t kTooMany = uint64_t{1} << 62;

/// Elements from the beginning of its storage to the last one that a tensor uses; kTooMany where they cannot
/// be.
uint64_t elements_reached(const json& tensor) {
  const std::vector<int64_t> sizes = numbers_of(tensor.at("sizes"));
  const std::vector<int64_t> strides = numbers_of(tensor.at("strides"));
  const auto offset = tensor.at("storage_offset").at("as_int").get<int64_t>();
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
      const std::optional<Type> type = type_of_number(tensor.at("dtype").get<int64_t>());
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
