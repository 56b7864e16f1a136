#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

#include "lockstep/base/error.h"
#include "lockstep/base/registry.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/backend.h"
#include "lockstep/inputs/input.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/topology/device_map.h"
#include "lockstep/topology/nvml.h"
#include "lockstep/topology/system.h"
#include "lockstep/train/job/versions.h"
#include "lockstep/train/rows/row_rules.h"

#include "bench_options.h"
#include "commands.h"
#include "console.h"

namespace lockstep::cli {
namespace {

using network_file::NetworkFile;

std::string versions() {
  const topology::Machine host = topology::inspect_host();
  return fmt::format("{}\n{}: {}, {} of {} cores, {} of memory available\n", train::version_text(), host.host,
                     host.processor, host.cores, host.host_cores, format_bytes(host.available_memory_bytes));
}

std::string line(const std::string& name, const std::string& state, const std::string& detail) {
  return fmt::format("  {:<12} {:<12} {}\n", name, state, detail);
}

/// Lines about a backend or a kind of device.
template <typename Status>
std::string status_lines(const std::string& name, const Status& status) {
  std::string text = line(name, status.usable ? "usable" : "not usable", status.detail);
  if (!status.usable && !status.advice.empty()) text += line("", "", status.advice);
  return text;
}

std::string backends() {
  std::string text = "Backends\n";
  for (const std::string& name : comm::backend_names())
    text += status_lines(name, comm::backend_status(name));
  return text;
}

std::string size_and_use(const topology::Nvml& nvml, const topology::VisibleGpu& gpu) {
  const std::optional<int> index = nvml.index_of(gpu.pci_bus_id);
  const topology::GpuSample now = index ? nvml.sample(*index) : topology::GpuSample();
  std::string text = format_bytes(gpu.memory_bytes);
  if (now.memory_used_bytes) text += fmt::format(", {} in use", format_bytes(*now.memory_used_bytes));
  if (now.temperature_c) text += fmt::format(", {:.0f} °C", *now.temperature_c);
  if (now.power_w && now.power_limit_w)
    text += fmt::format(", {:.0f} of {:.0f} W", *now.power_w, *now.power_limit_w);
  return text;
}

/// The driver's report, whether or not LibTorch can use the GPUs.
std::string driver_text(const topology::Nvml& nvml) {
  if (!nvml.why_not().empty()) return nvml.why_not();
  const topology::DeviceMap map = nvml.map();
  std::vector<std::string> names;
  for (const topology::Device& gpu : map.devices) names.push_back(gpu.name);
  return fmt::format("NVIDIA driver {}, for CUDA up to {}: {}", map.driver_version, map.cuda_version,
                     names.empty() ? "no GPU" : fmt::format("{}", fmt::join(names, ", ")));
}

std::string devices() {
  const topology::Machine host = topology::inspect_host();
  std::string text = "Devices: --device\n";
  text += line("cpu", "usable", fmt::format("{}, {} cores", host.processor, host.cores));
  text += status_lines("cuda", replica::accelerator_status());
  const topology::Nvml nvml;
  text += line("", "", driver_text(nvml));
  // The numbers that ranks use.
  int number = 0;
  for (const topology::VisibleGpu& gpu : topology::visible_gpus()) {
    text += line("", fmt::format("GPU {}", number++),
                 fmt::format("{} ({}), {}", gpu.name, gpu.pci_bus_id, size_and_use(nvml, gpu)));
  }
  return text;
}

std::string models() {
  std::string text = fmt::format("Models\n  {:<18} {:>13} {:>15} {:>6} {:>6}  {}\n", "name", "parameters",
                                 "multiply-adds", "image", "batch", "default batch from");
  for (const auto& [name, info] : models::registry().entries()) {
    text += fmt::format("  {:<18} {:>13} {:>15} {:>6} {:>6}  {}\n", name, info.parameters,
                        fmt::format("{:.2f} M", static_cast<double>(info.multiply_adds) / 1e6),
                        info.image_size, info.default_batch, info.source);
  }
  return text;
}

std::string traits_text(const strategies::Traits& traits) {
  return fmt::format(
      "  {0:<16} combines: {1}; optimizer applications per step: {2}; staleness: {3}\n"
      "  {0:<16} batch-norm statistics: {4}; replicas stay equal: {5}\n",
      "", traits.combines, traits.applications_per_step, traits.staleness, traits.batch_norm,
      traits.replicas_equal ? "yes" : "no");
}

std::string strategies() {
  std::string text = "Strategies\n";
  for (const auto& [name, info] : strategies::registry().entries()) {
    text += fmt::format("  {:<16} {}\n", name, info.description);
    const std::string usual = traits_text(info.traits({}));
    text += usual;
    for (const strategies::OptionInfo& option : strategies::option_infos()) {
      if (!option.concerns(name)) continue;
      std::string last;
      for (const std::string& value : option.values) {
        strategies::StrategyOptions options;
        option.set(options, value);
        const std::string given = traits_text(info.traits(options));
        if (given == usual || given == last) continue;
        last = given;
        text +=
            fmt::format("  {:<16} with {} {}:\n{}", "", option.flag, option.is_switch ? "" : value, given);
      }
    }
  }
  return text;
}

std::string inputs() {
  std::string text = "Inputs\n";
  for (const auto& [name, info] : inputs::registry().entries()) {
    text += fmt::format("  {:<12} {}\n", name, info.description);
  }
  return text;
}

std::string kernel_list() {
  std::string text = "Kernels\n";
  for (const auto& [name, info] : kernels::registry().entries()) {
    const bool fused = info.choice == kernels::KernelChoice::kFused;
    const std::string why_not = fused ? kernels::why_no_fused_kernels() : "";
    const std::string detail = why_not.empty() ? kernels::kernel_detail(name) : why_not;
    text += line(name, why_not.empty() ? "usable" : "not usable",
                 info.description + (detail.empty() ? "" : fmt::format(" ({})", detail)));
    if (!why_not.empty()) text += line("", "", kernels::kNoFusedKernelsAdvice);
    for (const std::string& one : info.covers) text += line("", "", "covers: " + one);
    if (name == kernels::default_kernels() && !info.covers.empty())
      text += line("", "", "images: " + kernels::layouts_text());
    for (const std::string& one : info.falls_back) text += line("", "", "left to LibTorch: " + one);
    for (const char* device : {"cpu", "cuda"}) {
      if (name == train::default_kernels(device))
        text += line("", "", fmt::format("the default with --device {}", device));
    }
  }
  return text;
}

std::string preset_list() {
  std::string text = "Presets: lockstep bench --preset NAME\n";
  for (const auto& [name, preset] : presets().entries()) {
    text += fmt::format("  {}\n    source: {}\n    stands for: {}\n", name, preset.source, preset.flags);
    for (const std::string& difference : preset.differences) {
      text += fmt::format("    not as there: {}\n", difference);
    }
  }
  return text;
}

/// The topic that is too long to be one of all.
constexpr const char* kJsonTopic = "json";

const Registry<std::string (*)()>& topics() {
  static const Registry<std::string (*)()> all("topic", "lockstep info --help",
                                               {{"devices", &devices},
                                                {"backends", &backends},
                                                {"models", &models},
                                                {"strategies", &strategies},
                                                {"inputs", &inputs},
                                                {"kernels", &kernel_list},
                                                {"presets", &preset_list},
                                                {kJsonTopic, &results::json_reference}});
  return all;
}

/// The topic that takes a name: one network.
constexpr const char* kModelTopic = "model";

int run_info(const std::string& topic, const std::string& name) {
  if (topic == kModelTopic) {
    if (name.empty()) {
      throw ConfigError("'lockstep info model' needs the network that it is to describe",
                        "lockstep info model mine.pt2, or a name that 'lockstep info models' lists.");
    }
    print_result(fitted(model_text(name)));
    return kExitDone;
  }
  if (!name.empty()) {
    throw ConfigError(fmt::format("'lockstep info {}' takes no argument '{}'", topic, name),
                      fmt::format("One network is described by: lockstep info model {}", name));
  }
  if (!topic.empty()) {
    print_result(fitted(topics().get(topic)()));
    return kExitDone;
  }
  print_result(fitted(versions()));
  for (const auto& [known, describe] : topics().entries()) {
    if (known != kJsonTopic) print_result(fitted("\n" + describe()));
  }
  return kExitDone;
}

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

RunCommand add_info(Flags& flags) {
  struct Asked {
    std::string topic;
    std::string name;
  };
  const auto asked = std::make_shared<Asked>();
  flags.set_examples(
      "Examples:\n  lockstep info\n  lockstep info models\n  lockstep info devices\n"
      "  lockstep info model mine.pt2\n");
  flags.add(
      "topic", asked->topic,
      "devices, backends, models, strategies, inputs, kernels or presets [all of them]; json: the keys of "
      "result files; or model, with the name of one");
  flags.add("name", asked->name, "for the topic model: a network's name or file", {.value = "MODEL"});
  return [asked](const Arguments& /*arguments*/) { return run_info(asked->topic, asked->name); };
}

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
