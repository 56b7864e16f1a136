#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

#include "lockstep/base/units.h"
#include "lockstep/models/model.h"
#include "lockstep/results/tables/row_tables.h"

#include "commands.h"

namespace lockstep::cli {
namespace {

using network_file::NetworkFile;

/// Rows of the list of largest parameters.
constexpr size_t kMostTensors = 5;

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;

  int64_t values() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
  std::string shape_text() const {
    return shape.empty() ? "one number" : fmt::format("{}", fmt::join(shape, "x"));
  }
};

std::string line(const std::string& name, const std::string& text) {
  return fmt::format("  {:<15} {}\n", name, text);
}

std::vector<NamedShape> parameters_of(const models::ModelInfo& info) {
  std::vector<NamedShape> shapes;
  if (info.file != nullptr) {
    for (const network_file::Tensor& tensor : info.file->parameters)
      shapes.push_back({tensor.name, tensor.shape});
    return shapes;
  }
  const std::unique_ptr<models::Model> model = info.create({.seed = std::nullopt});
  for (const auto& [name, value] : model->parameters().trainable())
    shapes.push_back({name, value.sizes().vec()});
  return shapes;
}

/// Gradients are fp32, as parameters are.
int64_t gradient_bytes(const models::ModelInfo& info) {
  return info.parameters * static_cast<int64_t>(sizeof(float));
}

std::string scaling_text(const models::ModelInfo& info, size_t tensors, const std::string& sample) {
  const int64_t bytes = gradient_bytes(info);
  std::string text = line("parameters", fmt::format("{} in {}", info.parameters,
                                                    counted(static_cast<int64_t>(tensors), "tensor")));
  text += line("gradients", format_bytes(bytes) + " for every step of a rank");
  if (info.multiply_adds == 0) return text + line("multiply-adds", "unknown");
  text += line(
      "multiply-adds",
      fmt::format("{} M in the forward pass of one {}; {} per byte of gradients",
                  format_number(static_cast<double>(info.multiply_adds) / 1e6, 3), sample,
                  format_number(static_cast<double>(info.multiply_adds) / static_cast<double>(bytes), 3)));
  return text;
}

std::string largest_text(std::vector<NamedShape> shapes, int64_t parameters) {
  std::ranges::stable_sort(shapes, [](const auto& a, const auto& b) { return a.values() > b.values(); });
  std::string text = "\nLargest parameters\n";
  const size_t shown = std::min(shapes.size(), kMostTensors);
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i) width = std::max(width, shapes[i].name.size());
  for (size_t i = 0; i < shown; ++i) {
    text += fmt::format(
        "  {:<{}}  {:>5.1f} %  {}\n", shapes[i].name, width,
        100 * static_cast<double>(shapes[i].values()) / static_cast<double>(std::max<int64_t>(parameters, 1)),
        shapes[i].shape_text());
  }
  if (shapes.size() > shown) text += fmt::format("  and {} smaller\n", shapes.size() - shown);
  return text;
}

std::string sample_text(const network_file::Sample& sample) {
  const bool whole =
      sample.type != network_file::Type::kFloat32 && sample.type != network_file::Type::kFloat64 &&
      sample.type != network_file::Type::kFloat16 && sample.type != network_file::Type::kBfloat16;
  return fmt::format(
      "{} of {}{}, {}", NamedShape{"", sample.shape}.shape_text(), network_file::name_of(sample.type),
      sample.channels_last ? ", channels last" : "",
      whole ? fmt::format("from {} to {}", sample.low, sample.high - 1)
            : fmt::format("normal around {:.3g} with deviation {:.3g}", sample.mean, sample.deviation));
}

std::string samples_text(const NetworkFile& file) {
  std::string text = "\nOne sample: its shape without the batch, and how random ones are drawn\n";
  for (const network_file::Sample& input : file.inputs)
    text += line(input.name, "input, " + sample_text(input));
  for (const network_file::Sample& target : file.targets)
    text += line(target.name, "target, " + sample_text(target));
  return text;
}

std::string batches_text(const models::ModelInfo& info) {
  const NetworkFile& file = *info.file;
  if (!file.has_fixed_batches())
    return fmt::format("\nBatches: any, {} by default, in fp32 or bf16\n", info.default_batch);
  std::string text = "\nBatches: a graph for each, which --batch, --precision and --device choose\n";
  for (const network_file::Graph& graph : file.graphs) {
    text += line(fmt::format("{} in {}", graph.batch, graph.precision),
                 fmt::format("{}keeps {} for the backward pass", graph.device == "cuda" ? "on a GPU, " : "",
                             format_bytes(graph.activation_bytes)));
  }
  return text;
}

std::string buffers_text(const NetworkFile& file) {
  const auto changing = std::ranges::count_if(file.buffers, [](const auto& b) { return b.changes; });
  uint64_t bytes = 0;
  for (const network_file::Tensor& buffer : file.buffers) bytes += buffer.bytes;
  std::string text = counted(static_cast<int64_t>(file.buffers.size()), "tensor");
  if (file.buffers.empty()) return text;
  return text +
         fmt::format(", {}; a step may change {}", format_bytes(static_cast<int64_t>(bytes)), changing);
}

std::string file_text(const std::string& name, const models::ModelInfo& info) {
  const NetworkFile& file = *info.file;
  const bool traced = file.has_fixed_batches();
  std::string text = fmt::format("{}: {}\n", name, file.origin);
  if (!file.torch_version.empty()) {
    text +=
        line("versions", (traced ? "exported with torch " : "built with LibTorch ") + file.torch_version +
                             (file.lockstep_version.empty() ? "" : ", lockstep " + file.lockstep_version));
  }
  if (!file.hash.empty()) text += line("hash", file.hash);
  text += line("a sample is", counted(file.units_per_sample, file.unit));
  text += scaling_text(info, file.parameters.size(), "sample");
  text += line("buffers", buffers_text(file));
  text += line("memory format", file.channels_last ? "channels_last" : "contiguous");
  text += line("random numbers", file.draws_random_numbers
                                     ? "drawn in every step (dropout), so verify compares no joint batch"
                                     : "none");
  return text + samples_text(file) + batches_text(info);
}

std::string built_in_text(const std::string& name, const models::ModelInfo& info, size_t tensors) {
  std::string text = fmt::format("{}: built in\n", name);
  text += line("default batch", fmt::format("{} ({})", info.default_batch, info.source));
  text += scaling_text(info, tensors, fmt::format("image of {0}x{0}", info.image_size));
  const std::string sizes =
      info.min_image_size == info.max_image_size
          ? "only"
          : fmt::format("by default, from {} to {}", info.min_image_size, info.max_image_size);
  return text + line("images", fmt::format("{0}x{0} {1}; {2}, {3} classes", info.image_size, sizes,
                                           counted(info.channels, "channel"), info.classes));
}

}  // namespace

std::vector<int64_t> parameter_values(const std::string& name) {
  std::vector<int64_t> values;
  for (const NamedShape& shape : parameters_of(models::info_of(name))) values.push_back(shape.values());
  return values;
}

double published_parameters(const std::string& name) {
  // tf_cnn_benchmarks' name.
  const std::string own = name == "inception3" ? "inception_v3" : name;
  for (const auto& [known, info] : models::registry().entries())
    if (known == own) return static_cast<double>(info.parameters);
  return 0;
}

std::string model_text(const std::string& name) {
  const models::ModelInfo& info = models::info_of(name);
  const std::vector<NamedShape> parameters = parameters_of(info);
  const std::string text =
      info.file != nullptr ? file_text(name, info) : built_in_text(name, info, parameters.size());
  return text + largest_text(parameters, info.parameters);
}

}  // namespace lockstep::cli
