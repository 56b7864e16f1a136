#include "lockstep/topology/pci_devices.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "lockstep/topology/cpu_list.h"
#include "lockstep/topology/hwloc_handle.h"

namespace lockstep::topology {
namespace {

constexpr unsigned short kNvidia = 0x10de;
/// The upper byte of a PCI class.
constexpr unsigned short kDisplayClass = 0x03;

using PciFacts = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

struct Found {
  Device device;
  hwloc_obj_t object = nullptr;
};

bool is_nvidia_gpu(const PciFacts& pci) {
  return pci.vendor_id == kNvidia && (pci.class_id >> 8) == kDisplayClass;
}

/// The device's own names for itself, InfiniBand's before Ethernet's: "mlx5_0", "ib0".
std::vector<std::string> network_names(hwloc_obj_t device) {
  std::vector<std::string> verbs, interfaces;
  for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || child->name == nullptr) continue;
    if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) verbs.emplace_back(child->name);
    if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) interfaces.emplace_back(child->name);
  }
  verbs.insert(verbs.end(), interfaces.begin(), interfaces.end());
  return verbs;
}

/// Where its host bridge is attached: a part of the machine that has processors.
hwloc_obj_t place_of(hwloc_obj_t object) {
  while (hwloc_obj_type_is_io(object->type)) object = object->parent;
  return object;
}

Device common_facts(hwloc_obj_t object) {
  const PciFacts& pci = object->attr->pcidev;
  Device device;
  device.pci_bus_id = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
  device.name = info_of(object, "PCIDevice");
  const hwloc_obj_t place = place_of(object);
  if (place->cpuset != nullptr) device.cpu_affinity = list_of(*place->cpuset);
  if (place->nodeset != nullptr && hwloc_bitmap_weight(place->nodeset) == 1)
    device.numa_node = hwloc_bitmap_first(place->nodeset);
  return device;
}

Found network_device(hwloc_obj_t object, const std::vector<std::string>& names) {
  Found found{common_facts(object), object};
  found.device.kind = DeviceKind::kNic;
  found.device.label = names.front();
  const std::string others = fmt::format("{}", fmt::join(names.begin() + 1, names.end(), ", "));
  if (!others.empty()) found.device.name += (found.device.name.empty() ? "" : ", ") + others;
  return found;
}

std::vector<Found> find_devices(hwloc_topology_t topology) {
  std::vector<Found> gpus, nics;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PCI_DEVICE, object)) != nullptr) {
    const std::vector<std::string> names = network_names(object);
    if (is_nvidia_gpu(object->attr->pcidev)) {
      gpus.push_back({common_facts(object), object});
    } else if (!names.empty()) {
      nics.push_back(network_device(object, names));
    }
  }
  std::ranges::sort(gpus, {}, [](const Found& gpu) { return gpu.device.pci_bus_id; });
  for (size_t i = 0; i < gpus.size(); ++i) gpus[i].device.label = fmt::format("GPU{}", i);
  gpus.insert(gpus.end(), nics.begin(), nics.end());
  return gpus;
}

/// From a device up to what has processors, itself left out.
std::vector<hwloc_obj_t> way_up(hwloc_obj_t object) {
  std::vector<hwloc_obj_t> way;
  for (object = object->parent; object != nullptr; object = object->parent) {
    way.push_back(object);
    if (!hwloc_obj_type_is_io(object->type)) break;
  }
  return way;
}

PathKind over_processors(hwloc_obj_t one, hwloc_obj_t other, hwloc_obj_t machine) {
  if (one->nodeset == nullptr || other->nodeset == nullptr) return PathKind::kSystem;
  if (hwloc_bitmap_isequal(one->nodeset, other->nodeset) == 0) return PathKind::kSystem;
  // What is attached to the whole of a machine with several nodes is near to none that is known.
  const bool anywhere = hwloc_bitmap_weight(one->nodeset) != 1 && one == machine;
  return anywhere ? PathKind::kSystem : PathKind::kNode;
}

/// A switch is one bridge towards the processor and one towards each device: two devices of the same switch
/// meet at the former, one bridge above them. Devices that share a slot meet right above them.
constexpr size_t kWithinSwitch = 1;

PathKind path_between(hwloc_obj_t one, hwloc_obj_t other, hwloc_obj_t machine) {
  const std::vector<hwloc_obj_t> ups = way_up(one);
  const std::vector<hwloc_obj_t> other_ups = way_up(other);
  for (size_t i = 0; i < ups.size(); ++i) {
    const auto meeting = std::ranges::find(other_ups, ups[i]);
    if (meeting == other_ups.end()) continue;
    if (ups[i]->type != HWLOC_OBJ_BRIDGE) return over_processors(ups[i], ups[i], machine);
    if (ups[i]->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) return PathKind::kHostBridge;
    const auto j = static_cast<size_t>(meeting - other_ups.begin());
    return i <= kWithinSwitch && j <= kWithinSwitch ? PathKind::kSwitch : PathKind::kSwitches;
  }
  return over_processors(ups.back(), other_ups.back(), machine);
}

}  // namespace

DeviceMap pci_devices(hwloc_topology_t topology) {
  const std::vector<Found> found = find_devices(topology);
  const hwloc_obj_t machine = hwloc_get_root_obj(topology);
  DeviceMap map;
  for (const Found& one : found) {
    map.devices.push_back(one.device);
    std::vector<Path>& row = map.paths.emplace_back();
    for (const Found& other : found) {
      row.push_back(
          {one.object == other.object ? PathKind::kSelf : path_between(one.object, other.object, machine),
           0});
    }
  }
  return map;
}

}  // namespace lockstep::topology
