#include "lockstep/topology/nvml.h"

#include <algorithm>
#include <array>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "lockstep/topology/hwloc_handle.h"

namespace lockstep::topology {
namespace {

using nvml::ok;

/// The loader's reason; if there is no such file, a clearer sentence than the loader's.
std::string why_not_loaded(const std::string& library) {
  const char* error = ::dlerror();
  const std::string text = error != nullptr ? error : "";
  if (text.find("No such file") != std::string::npos) {
    return fmt::format("{} is not on this machine: no NVIDIA driver is installed", library);
  }
  return fmt::format("{} cannot be loaded: {}", library, text);
}

template <typename Function>
bool find_function(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

/// Looks the functions up in an opened library. Returns the name of a missing one of the first four, or null.
const char* find_functions(void* library, nvml::Functions& functions) {
  if (!find_function(library, "nvmlInit_v2", functions.init)) return "nvmlInit_v2";
  if (!find_function(library, "nvmlShutdown", functions.shutdown)) return "nvmlShutdown";
  if (!find_function(library, "nvmlDeviceGetCount_v2", functions.count)) return "nvmlDeviceGetCount_v2";
  if (!find_function(library, "nvmlDeviceGetHandleByIndex_v2", functions.handle))
    return "nvmlDeviceGetHandleByIndex_v2";
  find_function(library, "nvmlErrorString", functions.error_string);
  find_function(library, "nvmlSystemGetDriverVersion", functions.driver_version);
  find_function(library, "nvmlSystemGetCudaDriverVersion_v2", functions.cuda_version);
  find_function(library, "nvmlDeviceGetName", functions.name);
  find_function(library, "nvmlDeviceGetPciInfo_v3", functions.pci_info);
  find_function(library, "nvmlDeviceGetMemoryInfo", functions.memory);
  find_function(library, "nvmlDeviceGetCpuAffinity", functions.cpu_affinity);
  find_function(library, "nvmlDeviceGetMemoryAffinity", functions.memory_affinity);
  find_function(library, "nvmlDeviceGetTopologyCommonAncestor", functions.common_ancestor);
  find_function(library, "nvmlDeviceGetNvLinkState", functions.link_state);
  find_function(library, "nvmlDeviceGetNvLinkRemoteDeviceType", functions.link_remote_type);
  find_function(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", functions.link_remote_pci);
  find_function(library, "nvmlDeviceGetClockInfo", functions.clock);
  find_function(library, "nvmlDeviceGetMaxClockInfo", functions.max_clock);
  find_function(library, "nvmlDeviceGetTemperatureV", functions.temperature);
  find_function(library, "nvmlDeviceGetTemperature", functions.old_temperature);
  find_function(library, "nvmlDeviceGetPowerUsage", functions.power);
  find_function(library, "nvmlDeviceGetEnforcedPowerLimit", functions.power_limit);
  // Drivers before CUDA 12.2 know it by another name.
  if (!find_function(library, "nvmlDeviceGetCurrentClocksEventReasons", functions.clock_reasons))
    find_function(library, "nvmlDeviceGetCurrentClocksThrottleReasons", functions.clock_reasons);
  find_function(library, "nvmlDeviceGetUtilizationRates", functions.utilization);
  return nullptr;
}

/// Words of the masks of processors: room for 4096.
constexpr unsigned kMaskWords = 64;
using Mask = std::array<unsigned long, kMaskWords>;

/// The driver's mask as hwloc's bitmap, which can print and count it.
Bitmap bits_of(const Mask& mask) {
  Bitmap bits = new_bitmap();
  hwloc_bitmap_from_ulongs(bits.get(), kMaskWords, mask.data());
  return bits;
}

/// nvmlGpuTopologyLevel_t in the words of `nvidia-smi topo`.
PathKind kind_of(int level) {
  constexpr std::array<std::pair<int, PathKind>, 6> kKinds{
      {{nvml::kTopologyInternal, PathKind::kSwitch},
       {nvml::kTopologySingle, PathKind::kSwitch},
       {nvml::kTopologyMultiple, PathKind::kSwitches},
       {nvml::kTopologyHostBridge, PathKind::kHostBridge},
       {nvml::kTopologyNode, PathKind::kNode},
       {nvml::kTopologySystem, PathKind::kSystem}}};
  const auto found = std::ranges::find(kKinds, level, &std::pair<int, PathKind>::first);
  return found == kKinds.end() ? PathKind::kUnknown : found->second;
}

/// The driver's mark, in a virtual machine, for a switch that the machine does not see.
bool is_hidden(const nvml::PciInfo& remote) {
  return normal_bus_id(remote.bus_id).starts_with("ffff");
}

}  // namespace

Nvml::Nvml(const std::string& library) {
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    why_not_ = why_not_loaded(library);
    return;
  }
  if (const char* missing = find_functions(opened, call_)) {
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
    // A container sees all GPUs of the host here, but may talk to its own only.
    if (call_.handle(index, &device) == nvml::kSuccess) devices_.push_back(device);
  }
}

Nvml::~Nvml() {
  // The library stays loaded: it may have threads of its own.
  if (initialized_) call_.shutdown();
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

GpuReport Nvml::report() const {
  GpuReport report;
  std::array<char, nvml::kVersionBytes> driver{};
  if (ok(call_.driver_version, driver.data(), static_cast<unsigned>(driver.size())))
    report.driver_version = driver.data();
  int cuda = 0;
  if (ok(call_.cuda_version, &cuda))
    report.cuda_version = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  for (const nvml::Device device : devices_) {
    report.gpus.push_back(facts(device));
    std::vector<Path>& row = report.pci_paths.emplace_back();
    for (const nvml::Device other : devices_) row.push_back(pci_path(device, other));
  }
  return report;
}

GpuFacts Nvml::facts(nvml::Device device) const {
  GpuFacts facts;
  std::array<char, nvml::kNameBytes> name{};
  if (ok(call_.name, device, name.data(), static_cast<unsigned>(name.size()))) facts.name = name.data();
  nvml::PciInfo pci{};
  if (ok(call_.pci_info, device, &pci)) facts.pci_bus_id = normal_bus_id(pci.bus_id);
  nvml::Memory memory{};
  if (ok(call_.memory, device, &memory)) facts.memory_bytes = static_cast<int64_t>(memory.total);
  Mask mask{};
  if (ok(call_.cpu_affinity, device, kMaskWords, mask.data())) facts.cpu_affinity = list_of(*bits_of(mask));
  // Words beyond those that the driver fills must be 0.
  mask = {};
  if (ok(call_.memory_affinity, device, kMaskWords, mask.data(), nvml::kScopeNode)) {
    const Bitmap nodes = bits_of(mask);
    // A GPU near to several nodes is near to none in particular.
    if (hwloc_bitmap_weight(nodes.get()) == 1) facts.numa_node = hwloc_bitmap_first(nodes.get());
  }
  facts.links = links(device);
  return facts;
}

std::vector<NvLink> Nvml::links(nvml::Device device) const {
  std::vector<NvLink> links;
  for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
    int state = 0;
    if (!ok(call_.link_state, device, link, &state) || state != nvml::kEnabled) continue;
    nvml::PciInfo remote{};
    const bool placed = ok(call_.link_remote_pci, device, link, &remote);
    int type = nvml::kLinkToGpu;
    // Older drivers do not tell the type of the far end: a hidden one is a switch, any other may be a GPU.
    if (!ok(call_.link_remote_type, device, link, &type) && (!placed || is_hidden(remote)))
      type = nvml::kLinkToSwitch;
    NvLink found;
    if (type == nvml::kLinkToSwitch) found.to = NvLink::To::kSwitch;
    if (type == nvml::kLinkToGpu && placed) {
      found.to = NvLink::To::kGpu;
      found.pci_bus_id = normal_bus_id(remote.bus_id);
    }
    links.push_back(std::move(found));
  }
  return links;
}

Path Nvml::pci_path(nvml::Device one, nvml::Device other) const {
  if (one == other) return {PathKind::kSelf, 0};
  int level = 0;
  if (!ok(call_.common_ancestor, one, other, &level)) return {};
  return {kind_of(level), 0};
}

GpuSample Nvml::sample(int index) const {
  const nvml::Device device = devices_.at(static_cast<size_t>(index));
  GpuSample sample;
  unsigned value = 0;
  if (ok(call_.clock, device, nvml::kSmClock, &value)) sample.sm_clock_mhz = value;
  if (ok(call_.max_clock, device, nvml::kSmClock, &value)) sample.max_sm_clock_mhz = value;
  if (ok(call_.clock, device, nvml::kMemoryClock, &value)) sample.memory_clock_mhz = value;
  // The versioned call is newer than many installed drivers, which have the other one only.
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
  // A driver newer than this list may have reasons without a name here.
  unsigned long long unnamed = bits & ~nvml::kReasonIdle;
  for (const auto& [bit, name] : kNames) {
    if ((bits & bit) != 0) names.emplace_back(name);
    unnamed &= ~bit;
  }
  if (unnamed != 0) names.push_back(fmt::format("reason {:#x}", unnamed));
  return names;
}

}  // namespace lockstep::topology
