#include <array>

#include <fmt/format.h>
#include <hwloc/bitmap.h>

#include "lockstep/topology/cpu_list.h"
#include "lockstep/topology/nvml.h"

namespace lockstep::topology {
namespace {

constexpr unsigned kMaskWords = 64;
using Mask = std::array<unsigned long, kMaskWords>;

Bitmap bits_of(const Mask& mask) {
  Bitmap bits = new_bitmap();
  hwloc_bitmap_from_ulongs(bits.get(), kMaskWords, mask.data());
  return bits;
}

using nvml::ok;

PathKind kind_of(int level) {
  switch (level) {
    case nvml::kTopologyInternal:
    case nvml::kTopologySingle:
      return PathKind::kSwitch;
    case nvml::kTopologyMultiple:
      return PathKind::kSwitches;
    case nvml::kTopologyHostBridge:
      return PathKind::kHostBridge;
    case nvml::kTopologyNode:
      return PathKind::kNode;
    case nvml::kTopologySystem:
      return PathKind::kSystem;
    default:
      return PathKind::kUnknown;
  }
}

/// In a virtual machine the driver writes this for a switch that the machine does not see.
bool is_hidden(const nvml::PciInfo& remote) {
  return normal_bus_id(remote.bus_id).starts_with("ffff");
}

}  // namespace

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
  mask = {};
  if (ok(call_.memory_affinity, device, kMaskWords, mask.data(), nvml::kScopeNode)) {
    const Bitmap nodes = bits_of(mask);
    // Near to several is near to none in particular.
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
    // Older drivers do not tell what is there; a hidden one is a switch, any other may be a GPU.
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

}  // namespace lockstep::topology
