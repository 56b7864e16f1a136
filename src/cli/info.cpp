#include <algorithm>
#include <functional>

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
#include "model_text.h"
#include "presets.h"

namespace lockstep::cli {
namespace {

std::string versions() {
  const topology::Machine host = topology::inspect_host();
  return fmt::format("{}\n{}: {}, {} of {} cores, {} of memory available\n", train::version_text(), host.host,
                     host.processor, host.cores, host.host_cores, format_bytes(host.available_memory_bytes));
}

std::string backends() {
  std::string text = "Backends\n";
  for (const std::string& name : comm::backend_names()) {
    const comm::BackendStatus status = comm::backend_status(name);
    text += fmt::format("  {:<12} {:<12} {}\n", name, status.usable ? "usable" : "not usable", status.detail);
    if (!status.usable && !status.advice.empty()) text += fmt::format("  {:<25} {}\n", "", status.advice);
  }
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
  const topology::GpuReport report = nvml.report();
  std::vector<std::string> names;
  for (const topology::GpuFacts& gpu : report.gpus) names.push_back(gpu.name);
  return fmt::format("NVIDIA driver {}, for CUDA up to {}: {}", report.driver_version, report.cuda_version,
                     names.empty() ? "no GPU" : fmt::format("{}", fmt::join(names, ", ")));
}

std::string devices() {
  const topology::Machine host = topology::inspect_host();
  std::string text = "Devices: --device\n";
  const auto line = [&](const std::string& name, const std::string& usable, const std::string& detail) {
    text += fmt::format("  {:<12} {:<12} {}\n", name, usable, detail);
  };
  line("cpu", "usable", fmt::format("{}, {} cores", host.processor, host.cores));
  const replica::AcceleratorStatus status = replica::accelerator_status();
  line("cuda", status.usable ? "usable" : "not usable", status.detail);
  if (!status.usable && !status.advice.empty()) line("", "", status.advice);
  const topology::Nvml nvml;
  line("", "", driver_text(nvml));
  // Numbered as ranks number them.
  int number = 0;
  for (const topology::VisibleGpu& gpu : topology::visible_gpus()) {
    line("", fmt::format("GPU {}", number++),
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
  const auto listed = [&](const char* what, const std::vector<std::string>& things) {
    for (const std::string& thing : things) text += fmt::format("  {:<25} {}: {}\n", "", what, thing);
  };
  for (const auto& [name, info] : kernels::registry().entries()) {
    const bool fused = info.choice == kernels::KernelChoice::kFused;
    const std::string why_not = fused ? kernels::why_no_fused_kernels() : "";
    const std::string detail = why_not.empty() ? kernels::kernel_detail(name) : why_not;
    text += fmt::format("  {:<12} {:<12} {}{}\n", name, why_not.empty() ? "usable" : "not usable",
                        info.description, detail.empty() ? "" : fmt::format(" ({})", detail));
    if (!why_not.empty()) text += fmt::format("  {:<25} {}\n", "", kernels::kNoFusedKernelsAdvice);
    listed("covers", info.covers);
    listed("left to LibTorch", info.falls_back);
    for (const char* device : {"cpu", "cuda"}) {
      if (name == train::default_kernels(device))
        text += fmt::format("  {:<25} the default with --device {}\n", "", device);
    }
  }
  return text;
}

std::string preset_list() {
  std::string text = "Presets: lockstep bench --preset NAME\n";
  for (const auto& [name, preset] : presets().entries()) {
    text +=
        fmt::format("  {}\n    source: {}\n    stands for: {}\n", name, preset.source, flags_text(preset));
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
    print_result(model_text(name));
    return kExitDone;
  }
  if (!name.empty()) {
    throw ConfigError(fmt::format("'lockstep info {}' takes no argument '{}'", topic, name),
                      fmt::format("One network is described by: lockstep info model {}", name));
  }
  if (!topic.empty()) {
    print_result(topics().get(topic)());
    return kExitDone;
  }
  print_result(versions());
  for (const auto& [known, describe] : topics().entries()) {
    if (known != kJsonTopic) print_result("\n" + describe());
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
