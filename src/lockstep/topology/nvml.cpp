#include "lockstep/topology/nvml.h"

#include <algorithm>
#include <array>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "lockstep/topology/hwloc_handle.h"

namespace lockstep::topology {
namespace {

/// The loader's reason; if there is no such file, a clearer sentence than the loader's.
std::string why_not_loaded(const std::string& library) {
  const char* error = ::dlerror();
  const std::string text = error != nullptr ? error : "";
  if (text.find("No such file") != std::string::npos) {
    return fmt::format("{} is not on this machine: no NVIDIA driver is installed", library);
  }
  return fmt::format("{} cannot be loaded: {}", library, text);
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

int links_to(const LinkedGpu& from, const LinkedGpu& to) {
  return static_cast<int>(std::ranges::count_if(from.links, [&](const NvLink& link) {
    return link.to == NvLink::To::kGpu && link.pci_bus_id == to.pci_bus_id;
  }));
}

int links_to_switches(const LinkedGpu& from) {
  return static_cast<int>(std::ranges::count(from.links, NvLink::To::kSwitch, &NvLink::to));
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

int nvlinks_between(const LinkedGpu& one, const LinkedGpu& other) {
  // A link that only one end reports as up carries nothing.
  const int direct = std::min(links_to(one, other), links_to(other, one));
  return direct > 0 ? direct : std::min(links_to_switches(one), links_to_switches(other));
}

Nvml::Nvml(const std::string& library) : call_{::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)} {
  if (call_.library == nullptr) {
    why_not_ = why_not_loaded(library);
    return;
  }
  for (const char* needed :
       {"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2"}) {
    if (::dlsym(call_.library, needed) != nullptr) continue;
    why_not_ = fmt::format("{} has no function {}: the NVIDIA driver is too old", library, needed);
    return;
  }
  if (const nvml::Return result = call_.init.pointer(); result != nvml::kSuccess) {
    why_not_ = reason("the NVIDIA driver does not answer", result);
    return;
  }
  initialized_ = true;
  unsigned count = 0;
  if (const nvml::Return result = call_.count.pointer(&count); result != nvml::kSuccess) {
    why_not_ = reason("the NVIDIA driver does not count its GPUs", result);
    return;
  }
  for (unsigned index = 0; index < count; ++index) {
    nvml::Device device = nullptr;
    // A container sees all GPUs of the host here, but may talk to its own only.
    if (call_.handle.succeeds(index, &device)) devices_.push_back(device);
  }
}

Nvml::~Nvml() {
  // The library stays loaded: it may have threads of its own.
  if (initialized_) call_.shutdown.pointer();
}

std::string Nvml::reason(const char* what, nvml::Return result) const {
  const char* text = call_.error_string.pointer != nullptr ? call_.error_string.pointer(result) : nullptr;
  return text != nullptr ? fmt::format("{}: {}", what, text) : fmt::format("{}: error {}", what, result);
}

std::optional<int> Nvml::index_of(std::string_view pci_bus_id) const {
  const std::string wanted = normal_bus_id(pci_bus_id);
  for (int index = 0; index < gpus(); ++index) {
    nvml::PciInfo info{};
    if (!call_.pci_info.succeeds(devices_[static_cast<size_t>(index)], &info)) continue;
    if (normal_bus_id(info.bus_id) == wanted) return index;
  }
  return std::nullopt;
}

DeviceMap Nvml::map() const {
  DeviceMap map;
  std::array<char, nvml::kVersionBytes> driver{};
  if (call_.driver_version.succeeds(driver.data(), static_cast<unsigned>(driver.size())))
    map.driver_version = driver.data();
  int cuda = 0;
  if (call_.cuda_version.succeeds(&cuda))
    map.cuda_version = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  std::vector<LinkedGpu> gpus;
  for (const nvml::Device device : devices_) gpus.push_back(linked_gpu(device));
  for (size_t one = 0; one < gpus.size(); ++one) {
    Device& device = map.devices.emplace_back(gpus[one]);
    device.label = fmt::format("GPU{}", one);
    std::vector<Path>& row = map.paths.emplace_back();
    for (size_t other = 0; other < gpus.size(); ++other) {
      const int links = one == other ? 0 : nvlinks_between(gpus[one], gpus[other]);
      row.push_back(links > 0 ? Path{PathKind::kNvlink, links} : pci_path(devices_[one], devices_[other]));
    }
  }
  return map;
}

LinkedGpu Nvml::linked_gpu(nvml::Device device) const {
  LinkedGpu gpu;
  std::array<char, nvml::kNameBytes> name{};
  if (call_.name.succeeds(device, name.data(), static_cast<unsigned>(name.size()))) gpu.name = name.data();
  nvml::PciInfo pci{};
  if (call_.pci_info.succeeds(device, &pci)) gpu.pci_bus_id = normal_bus_id(pci.bus_id);
  nvml::Memory memory{};
  if (call_.memory.succeeds(device, &memory)) gpu.memory_bytes = static_cast<int64_t>(memory.total);
  Mask mask{};
  if (call_.cpu_affinity.succeeds(device, kMaskWords, mask.data()))
    gpu.cpu_affinity = list_of(*bits_of(mask));
  // Words beyond those that the driver fills must be 0.
  mask = {};
  if (call_.memory_affinity.succeeds(device, kMaskWords, mask.data(), nvml::kScopeNode)) {
    const Bitmap nodes = bits_of(mask);
    // A GPU near to several nodes is near to none in particular.
    if (hwloc_bitmap_weight(nodes.get()) == 1) gpu.numa_node = hwloc_bitmap_first(nodes.get());
  }
  gpu.links = links(device);
  return gpu;
}

std::vector<NvLink> Nvml::links(nvml::Device device) const {
  std::vector<NvLink> links;
  for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
    int state = 0;
    if (!call_.link_state.succeeds(device, link, &state) || state != nvml::kEnabled) continue;
    nvml::PciInfo remote{};
    const bool placed = call_.link_remote_pci.succeeds(device, link, &remote);
    int type = nvml::kLinkToGpu;
    // Older drivers do not report the type of the far end: a hidden one is a switch, any other may be a GPU.
    if (!call_.link_remote_type.succeeds(device, link, &type) && (!placed || is_hidden(remote)))
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
  if (!call_.common_ancestor.succeeds(one, other, &level)) return {};
  return {kind_of(level), 0};
}

GpuSample Nvml::sample(int index) const {
  const nvml::Device device = devices_.at(static_cast<size_t>(index));
  GpuSample sample;
  unsigned value = 0;
  if (call_.clock.succeeds(device, nvml::kSmClock, &value)) sample.sm_clock_mhz = value;
  if (call_.max_clock.succeeds(device, nvml::kSmClock, &value)) sample.max_sm_clock_mhz = value;
  if (call_.clock.succeeds(device, nvml::kMemoryClock, &value)) sample.memory_clock_mhz = value;
  // The versioned call is newer than many installed drivers, which have the other one only.
  nvml::Temperature temperature{nvml::kTemperatureVersion, nvml::kGpuSensor, 0};
  if (call_.temperature.succeeds(device, &temperature)) {
    sample.temperature_c = temperature.celsius;
  } else if (call_.old_temperature.succeeds(device, nvml::kGpuSensor, &value)) {
    sample.temperature_c = value;
  }
  if (call_.power.succeeds(device, &value)) sample.power_w = value / 1000.0;
  if (call_.power_limit.succeeds(device, &value)) sample.power_limit_w = value / 1000.0;
  nvml::Utilization utilization{};
  if (call_.utilization.succeeds(device, &utilization)) {
    sample.kernel_share = utilization.gpu / 100.0;
    sample.memory_share = utilization.memory / 100.0;
  }
  nvml::Memory memory{};
  if (call_.memory.succeeds(device, &memory)) {
    sample.memory_used_bytes = static_cast<int64_t>(memory.used);
    sample.memory_bytes = static_cast<int64_t>(memory.total);
  }
  unsigned long long reasons = 0;
  if (call_.clock_reasons.succeeds(device, &reasons)) sample.slowed_by = slowdown_names(reasons);
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
