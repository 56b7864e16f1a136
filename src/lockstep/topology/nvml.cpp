#include "lockstep/topology/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace lockstep::topology {
namespace {

using nvml::ok;

/// Why the loader did not load it; the reason is long, and means nothing where there is no such file.
std::string why_not_loaded(const std::string& library) {
  const char* error = ::dlerror();
  const std::string text = error != nullptr ? error : "";
  if (text.find("No such file") != std::string::npos) {
    return fmt::format("{} is not on this machine: no NVIDIA driver is installed", library);
  }
  return fmt::format("{} cannot be loaded: {}", library, text);
}

}  // namespace

Nvml::Nvml(const std::string& library) {
  open(library);
}

Nvml::~Nvml() {
  // The library stays loaded: a driver's may have threads of its own.
  if (initialized_) call_.shutdown();
}

void Nvml::open(const std::string& library) {
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    why_not_ = why_not_loaded(library);
    return;
  }
  if (const char* missing = nvml::find_functions(opened, call_)) {
    why_not_ = fmt::format("{} has no function {}: the NVIDIA driver is too old", library, missing);
    return;
  }
  if (const nvml::Return result = call_.init(); result != nvml::kSuccess) {
    why_not_ = reason("the NVIDIA driver does not answer", result);
    return;
  }
  initialized_ = true;
  unsigned count = 0;
  if (const nvml::Return result = call_.count(&count); result != nvml::kSuccess) {
    why_not_ = reason("the NVIDIA driver does not count its GPUs", result);
    return;
  }
  for (unsigned index = 0; index < count; ++index) {
    nvml::Device device = nullptr;
    // Of all that the host has, a container may talk to its own only.
    if (call_.handle(index, &device) == nvml::kSuccess) devices_.push_back(device);
  }
}

std::string Nvml::reason(const char* what, nvml::Return result) const {
  const char* text = call_.error_string != nullptr ? call_.error_string(result) : nullptr;
  return text != nullptr ? fmt::format("{}: {}", what, text) : fmt::format("{}: error {}", what, result);
}

std::optional<int> Nvml::index_of(std::string_view pci_bus_id) const {
  const std::string wanted = normal_bus_id(pci_bus_id);
  for (int index = 0; index < gpus(); ++index) {
    nvml::PciInfo info{};
    if (!ok(call_.pci_info, devices_[static_cast<size_t>(index)], &info)) continue;
    if (normal_bus_id(info.bus_id) == wanted) return index;
  }
  return std::nullopt;
}

GpuSample Nvml::sample(int index) const {
  const nvml::Device device = devices_.at(static_cast<size_t>(index));
  GpuSample sample;
  unsigned value = 0;
  if (ok(call_.clock, device, nvml::kSmClock, &value)) sample.sm_clock_mhz = value;
  if (ok(call_.max_clock, device, nvml::kSmClock, &value)) sample.max_sm_clock_mhz = value;
  if (ok(call_.clock, device, nvml::kMemoryClock, &value)) sample.memory_clock_mhz = value;
  nvml::Temperature temperature{nvml::kTemperatureVersion, nvml::kGpuSensor, 0};
  if (ok(call_.temperature, device, &temperature)) {
    sample.temperature_c = temperature.celsius;
  } else if (ok(call_.old_temperature, device, nvml::kGpuSensor, &value)) {
    sample.temperature_c = value;
  }
  if (ok(call_.power, device, &value)) sample.power_w = value / 1000.0;
  if (ok(call_.power_limit, device, &value)) sample.power_limit_w = value / 1000.0;
  nvml::Utilization utilization{};
  if (ok(call_.utilization, device, &utilization)) {
    sample.kernel_share = utilization.gpu / 100.0;
    sample.memory_share = utilization.memory / 100.0;
  }
  nvml::Memory memory{};
  if (ok(call_.memory, device, &memory)) {
    sample.memory_used_bytes = static_cast<int64_t>(memory.used);
    sample.memory_bytes = static_cast<int64_t>(memory.total);
  }
  unsigned long long reasons = 0;
  if (ok(call_.clock_reasons, device, &reasons)) sample.slowed_by = slowdown_names(reasons);
  return sample;
}

std::vector<std::string> slowdown_names(unsigned long long bits) {
  static constexpr std::pair<unsigned long long, const char*> kNames[] = {
      {nvml::kReasonApplicationClocks, "application clocks"},
      {nvml::kReasonPowerCap, "power cap"},
      {nvml::kReasonHardwareSlowdown, "hardware slowdown"},
      {nvml::kReasonSyncBoost, "sync boost with another GPU"},
      {nvml::kReasonSoftwareThermal, "software thermal slowdown"},
      {nvml::kReasonHardwareThermal, "hardware thermal slowdown"},
      {nvml::kReasonPowerBrake, "power brake of the power supply"},
      {nvml::kReasonDisplayClock, "display clocks"},
  };
  std::vector<std::string> names;
  unsigned long long unnamed = bits & ~nvml::kReasonIdle;
  for (const auto& [bit, name] : kNames) {
    if ((bits & bit) != 0) names.emplace_back(name);
    unnamed &= ~bit;
  }
  if (unnamed != 0) names.push_back(fmt::format("reason {:#x}", unnamed));
  return names;
}

}  // namespace lockstep::topology
