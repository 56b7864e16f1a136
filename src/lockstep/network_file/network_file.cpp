#include "lockstep/network_file/network_file.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/json_node.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/network_file/graph_check.h"

namespace lockstep::network_file {
namespace {

using nlohmann::json;

constexpr const char* kDescription = "extra/lockstep.json";
constexpr int64_t kFormat = 1;
/// A description takes 200 bytes per tensor, a graph 500 per operation.
constexpr uint64_t kMaxDescriptionBytes = 64 << 20;
constexpr uint64_t kMaxGraphBytes = 512 << 20;
constexpr size_t kMaxDimensions = 16;
constexpr int64_t kMaxElements = int64_t{1} << 40;

/// "8 in fp32 on the CPU".
std::string step_text(int64_t batch, const std::string& precision, const std::string& device) {
  return fmt::format("{} in {} on {}", batch, precision, device == "cpu" ? "the CPU" : "a GPU");
}

struct TypeFacts {
  /// As PyTorch names it.
  std::string_view name;
  /// As torch.export counts it (torch/_export/serde/schema.py, ScalarType).
  int64_t number;
  int64_t bytes;
};

/// In the order of Type.
constexpr TypeFacts kTypes[] = {{"float32", 7, 4}, {"float64", 8, 8}, {"float16", 6, 2}, {"bfloat16", 13, 2},
                                {"int64", 5, 8},   {"int32", 4, 4},   {"int16", 3, 2},   {"int8", 2, 1},
                                {"uint8", 1, 1},   {"bool", 12, 1}};

const TypeFacts& facts_of(Type type) {
  return kTypes[static_cast<size_t>(type)];
}

template <typename Value>
std::optional<Type> type_with(Value TypeFacts::*column, const Value& value) {
  const auto found = std::ranges::find(kTypes, value, column);
  if (found == std::end(kTypes)) return std::nullopt;
  return static_cast<Type>(found - std::begin(kTypes));
}

Type type_of(const json& entry) {
  const auto name = entry.at("dtype").get<std::string>();
  if (const auto type = type_with<std::string_view>(&TypeFacts::name, name)) return *type;
  throw Error(fmt::format("it has a tensor of type '{}'", name));
}

std::string name_of(const json& entry) {
  auto name = entry.at("name").get<std::string>();
  // Names come into tables, messages and file names.
  if (name.empty() || name.size() > 1000 || name != plain_text(name))
    throw Error("it has a name that is empty, too long or not text");
  return name;
}

/// Sizes that can be multiplied without overflow.
std::vector<int64_t> shape_of(const json& entry, const std::string& name) {
  auto shape = whole_numbers(entry.at("shape"));
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || (size > 0 && count > kMaxElements / size)) count = -1;
    if (count < 0) break;
    count *= size;
  }
  if (count < 0 || shape.size() > kMaxDimensions) {
    throw Error(fmt::format("its tensor '{}' cannot have the shape [{}]", name, fmt::join(shape, ", ")));
  }
  return shape;
}

int64_t count_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// Whether elements with these strides fill a range without gaps or overlap.
bool is_dense(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  if (shape.size() != strides.size()) return false;
  std::vector<std::pair<int64_t, int64_t>> by_stride;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) by_stride.emplace_back(strides[i], shape[i]);
  }
  if (count_of(shape) == 0) return true;
  std::ranges::sort(by_stride);
  int64_t expected = 1;
  for (const auto& [stride, size] : by_stride) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

Tensor tensor_of(const json& entry, uint64_t all_bytes) {
  Tensor tensor{.name = name_of(entry)};
  tensor.shape = shape_of(entry, tensor.name);
  tensor.strides = whole_numbers(entry.at("strides"));
  tensor.type = type_of(entry);
  tensor.position = static_cast<uint64_t>(whole_number(entry.at("position")));
  tensor.bytes = static_cast<uint64_t>(count_of(tensor.shape) * bytes_of(tensor.type));
  tensor.changes = entry.value("changes", false);
  if (!is_dense(tensor.shape, tensor.strides)) {
    throw Error(fmt::format("its tensor '{}' has gaps: shape [{}], strides [{}]", tensor.name,
                            fmt::join(tensor.shape, ", "), fmt::join(tensor.strides, ", ")));
  }
  if (tensor.position > all_bytes || tensor.bytes > all_bytes - tensor.position) {
    throw Error(fmt::format("the values of its tensor '{}' lie outside of the file", tensor.name));
  }
  return tensor;
}

Sample sample_of(const json& entry) {
  Sample sample{.name = name_of(entry)};
  sample.shape = shape_of(entry, sample.name);
  sample.type = type_of(entry);
  sample.channels_last = entry.at("channels_last").get<bool>();
  const json& random = entry.at("random");
  const auto kind = random.at("kind").get<std::string>();
  if (kind == "normal") {
    sample.mean = random.at("mean").get<double>();
    sample.deviation = random.at("std").get<double>();
    if (sample.deviation < 0)
      throw Error(fmt::format("its input '{}' has a negative deviation", sample.name));
  } else if (kind == "integers") {
    sample.low = whole_number(random.at("low"));
    sample.high = whole_number(random.at("high"));
    if (sample.low >= sample.high || sample.low < std::numeric_limits<int64_t>::min() / 2) {
      throw Error(
          fmt::format("its input '{}' has no number from {} to {}", sample.name, sample.low, sample.high));
    }
  } else {
    throw Error(fmt::format("its input '{}' is drawn from '{}', which nobody knows", sample.name, kind));
  }
  return sample;
}

Graph graph_of(const json& entry) {
  Graph graph{.name = name_of(entry),
              .batch = whole_number(entry.at("batch")),
              .precision = plain_text(entry.at("precision").get<std::string>()),
              .device = entry.value("device", "cpu"),
              .activation_bytes = whole_number(entry.at("activation_bytes"))};
  if (graph.batch < 1 || graph.batch > std::numeric_limits<int>::max() || graph.activation_bytes < 0) {
    throw Error(fmt::format("its graph '{}' has a batch of {}", graph.name, graph.batch));
  }
  if (graph.device != "cpu" && graph.device != "cuda") {
    throw Error(fmt::format("its graph '{}' is for the device '{}', not for cpu or cuda", graph.name,
                            plain_text(graph.device)));
  }
  if (graph.name.find('/') != std::string::npos) throw Error(fmt::format("it has a graph '{}'", graph.name));
  return graph;
}

template <typename Thing, typename Make>
std::vector<Thing> list_of(const json& content, const char* key, Make make) {
  std::vector<Thing> things;
  std::set<std::string> names;
  for (const json& entry : content.at(key)) {
    things.push_back(make(entry));
    if (!names.insert(things.back().name).second) {
      throw Error(fmt::format("it has two {} of the name '{}'", key, things.back().name));
    }
  }
  return things;
}

NetworkFile describe(const json& content, uint64_t all_bytes) {
  const auto format = whole_number(content.at("lockstep"));
  if (format != kFormat) {
    throw Error(fmt::format("it has format {}, and this lockstep reads format {}", format, kFormat),
                "Export the network again with the Python package of this lockstep.");
  }
  const auto tensor = [&](const json& entry) { return tensor_of(entry, all_bytes); };
  NetworkFile file;
  file.name = name_of(content);
  file.origin = fmt::format("the network '{}', traced by torch.export", file.name);
  file.hash = plain_text(content.at("hash").get<std::string>());
  file.torch_version = plain_text(content.at("versions").at("torch").get<std::string>());
  file.lockstep_version = plain_text(content.at("versions").value("lockstep", ""));
  file.unit = content.at("unit").get<std::string>();
  file.units_per_sample = whole_number(content.at("units_per_sample"));
  file.multiply_adds = whole_number(content.at("multiply_adds"));
  file.channels_last = content.at("channels_last").get<bool>();
  file.parameters = list_of<Tensor>(content, "parameters", tensor);
  file.buffers = list_of<Tensor>(content, "buffers", tensor);
  file.inputs = list_of<Sample>(content, "inputs", sample_of);
  file.targets = list_of<Sample>(content, "targets", sample_of);
  file.graphs = list_of<Graph>(content, "graphs", graph_of);
  const auto unknown =
      std::ranges::find_if(file.parameters, [](const Tensor& p) { return p.type != Type::kFloat32; });
  if (unknown != file.parameters.end())
    throw Error(fmt::format("its parameter '{}' is not fp32", unknown->name));
  const bool short_unit =
      !file.unit.empty() && file.unit.size() <= 20 &&
      std::ranges::all_of(file.unit, [](unsigned char c) { return c >= 'a' && c <= 'z'; });
  if (!short_unit || file.units_per_sample < 1 || file.units_per_sample > kMaxElements ||
      file.multiply_adds < 0 || file.hash.size() > 200 || file.torch_version.size() > 200 ||
      file.lockstep_version.size() > 200) {
    throw Error("its description has a value out of range");
  }
  if (file.parameters.empty() || file.inputs.empty() || file.graphs.empty()) {
    throw Error("it has no parameters, no inputs or no graphs");
  }
  return file;
}

}  // namespace

int64_t bytes_of(Type type) {
  return facts_of(type).bytes;
}

std::string name_of(Type type) {
  return std::string(facts_of(type).name);
}

std::optional<Type> type_of_number(int64_t number) {
  return type_with(&TypeFacts::number, number);
}

int64_t NetworkFile::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& parameter : parameters) count += count_of(parameter.shape);
  return count;
}

int64_t NetworkFile::largest_parameter() const {
  int64_t largest = 0;
  for (const Tensor& parameter : parameters) largest = std::max(largest, count_of(parameter.shape));
  return largest;
}

std::optional<LabelledImages> NetworkFile::labelled_images() const {
  if (inputs.size() != 1 || targets.size() != 1) return std::nullopt;
  const Sample& image = inputs.front();
  const Sample& label = targets.front();
  const bool fits = image.type == Type::kFloat32 && image.shape.size() == 3 &&
                    image.shape[1] == image.shape[2] && (image.shape[0] == 1 || image.shape[0] == 3) &&
                    label.type == Type::kInt64 && label.shape.empty() && label.low == 0;
  if (!fits) return std::nullopt;
  return LabelledImages{.channels = image.shape[0], .size = image.shape[1], .classes = label.high};
}

const Graph& NetworkFile::graph(int64_t batch, const std::string& precision,
                                const std::string& device) const {
  std::vector<std::string> there;
  for (const Graph& graph : graphs) {
    if (graph.batch == batch && graph.precision == precision && graph.device == device) return graph;
    there.push_back(step_text(graph.batch, graph.precision, graph.device));
  }
  throw ConfigError(fmt::format("{} has no step with batches of {}; it has {}", path,
                                step_text(batch, precision, device), fmt::join(there, ", ")),
                    fmt::format("Choose with --batch, --precision and --device{}.",
                                hash.empty() ? ""
                                             : ", or export it again with batch=[...], precision=[...] and "
                                               "device=[...]"));
}

NetworkFile read_description(const Entries& entries) {
  if (!entries.has(kDescription)) {
    throw Error("it is not one of lockstep's",
                "Files are written by lockstep.export() in Python; see docs/your-network.md.");
  }
  const json content =
      json::parse(entries.read(kDescription, kMaxDescriptionBytes), nullptr, /*allow_exceptions=*/false);
  if (content.is_discarded()) throw Error("its description is not JSON");
  NetworkFile file;
  try {
    file = describe(content, entries.size_of(kValues));
  } catch (const json::exception&) {
    throw Error("its description lacks an entry, or has one of another type",
                "Export the network again with the Python package of this lockstep.");
  }
  for (const Graph& graph : file.graphs) {
    for (const char* folder : {"constants", "weights"}) {
      const std::string list = fmt::format("data/{0}/{1}_{0}_config.json", folder, graph.name);
      check_constants(entries.read(list, kMaxGraphBytes), [&](const std::string& name) {
        return entries.size_of(fmt::format("data/{}/{}", folder, name));
      });
    }
    check_graph(entries.read(fmt::format("models/{}.json", graph.name), kMaxGraphBytes), graph, file);
  }
  return file;
}

}  // namespace lockstep::network_file
