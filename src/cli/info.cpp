#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/registry.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/backend.h"
#include "lockstep/inputs/input.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/topology/inspect.h"
#include "lockstep/topology/nvml.h"
#include "lockstep/topology/visible_gpus.h"
#include "lockstep/train/job/versions.h"
#include "lockstep/train/rows/row_rules.h"

#include "commands.h"
#include "console.h"
#include "presets.h"

namespace lockstep::cli {
namespace {

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
      for (const std::string& value : option.values) {
        strategies::StrategyOptions options;
        option.set(options, value);
        const std::string given = traits_text(info.traits(options));
        if (given == usual) continue;
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

}  // namespace lockstep::cli
