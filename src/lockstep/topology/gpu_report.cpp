#include "lockstep/topology/gpu_report.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::topology {
namespace {

int links_to(const GpuFacts& from, const GpuFacts& to) {
  return static_cast<int>(std::ranges::count_if(from.links, [&](const NvLink& link) {
    return link.to == NvLink::To::kGpu && link.pci_bus_id == to.pci_bus_id;
  }));
}

int links_to_switches(const GpuFacts& from) {
  return static_cast<int>(std::ranges::count(from.links, NvLink::To::kSwitch, &NvLink::to));
}

/// A device of the new map, with its place in the old one where it had one.
struct Entry {
  Device device;
  std::optional<size_t> before;
  std::optional<size_t> gpu;
};

std::optional<size_t> place_of(const DeviceMap& map, const std::string& bus_id) {
  const auto found = std::ranges::find(map.devices, bus_id, &Device::pci_bus_id);
  if (found == map.devices.end() || bus_id.empty()) return std::nullopt;
  return static_cast<size_t>(found - map.devices.begin());
}

/// The driver's facts about a GPU; where it knows no place near it, the bus's.
Entry gpu_entry(const GpuReport& report, size_t gpu, const DeviceMap& map) {
  Device device = report.gpus[gpu];
  device.label = fmt::format("GPU{}", gpu);
  const std::optional<size_t> before = place_of(map, device.pci_bus_id);
  if (before && !device.numa_node) device.numa_node = map.devices[*before].numa_node;
  if (before && device.cpu_affinity.empty()) device.cpu_affinity = map.devices[*before].cpu_affinity;
  return {.device = std::move(device), .before = before, .gpu = gpu};
}

/// The driver's GPUs in its order, then all other devices of the map.
std::vector<Entry> entries_of(const DeviceMap& map, const GpuReport& report) {
  std::vector<Entry> entries;
  for (size_t gpu = 0; gpu < report.gpus.size(); ++gpu) entries.push_back(gpu_entry(report, gpu, map));
  for (size_t place = 0; place < map.devices.size(); ++place) {
    if (map.devices[place].kind == DeviceKind::kGpu) continue;
    entries.push_back({.device = map.devices[place], .before = place, .gpu = std::nullopt});
  }
  return entries;
}

/// NVLinks first, then the driver's word for the way over PCIe, then the bus's.
Path merged_path(const Entry& one, const Entry& other, const DeviceMap& map, const GpuReport& report) {
  if (one.gpu && other.gpu) {
    if (one.gpu == other.gpu) return {PathKind::kSelf, 0};
    const int links = nvlinks_between(report.gpus[*one.gpu], report.gpus[*other.gpu]);
    if (links > 0) return {PathKind::kNvlink, links};
    const Path told = report.pci_paths[*one.gpu][*other.gpu];
    if (told.kind != PathKind::kUnknown) return told;
  }
  if (one.before && other.before) return map.paths[*one.before][*other.before];
  return {};
}

}  // namespace

int nvlinks_between(const GpuFacts& one, const GpuFacts& other) {
  // A link that only one end reports as up carries nothing.
  const int direct = std::min(links_to(one, other), links_to(other, one));
  return direct > 0 ? direct : std::min(links_to_switches(one), links_to_switches(other));
}

System with_gpus(System system, const GpuReport& report) {
  const DeviceMap& map = system.map;
  const std::vector<Entry> entries = entries_of(map, report);
  DeviceMap merged{.devices = {},
                   .paths = {},
                   .driver_version = report.driver_version,
                   .cuda_version = report.cuda_version};
  for (const Entry& one : entries) {
    merged.devices.push_back(one.device);
    std::vector<Path>& row = merged.paths.emplace_back();
    for (const Entry& other : entries) row.push_back(merged_path(one, other, map, report));
  }
  system.map = std::move(merged);
  return system;
}

}  // namespace lockstep::topology
