#include "lockstep/topology/system.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/topology/hwloc_handle.h"
#include "lockstep/topology/nvml.h"
#include "lockstep/topology/system_files.h"

namespace lockstep::topology {
namespace {

int count_inside(hwloc_topology_t topology, hwloc_obj_t outer, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_inside_cpuset_by_type(topology, outer->cpuset, type));
}

/// Some virtual machines do not show which hardware threads share a core: each counts as one then.
int cores_inside(hwloc_topology_t topology, hwloc_obj_t outer) {
  const int cores = count_inside(topology, outer, HWLOC_OBJ_CORE);
  return cores > 0 ? cores : count_inside(topology, outer, HWLOC_OBJ_PU);
}

std::vector<CacheGroup> caches_inside(hwloc_topology_t topology, hwloc_obj_t package) {
  std::vector<CacheGroup> groups;
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1CACHE}) {
    hwloc_obj_t cache = nullptr;
    while ((cache = hwloc_get_next_obj_inside_cpuset_by_type(topology, package->cpuset, type, cache)) !=
           nullptr) {
      char name[16] = {};
      hwloc_obj_type_snprintf(name, sizeof name, cache, 0);
      const CacheGroup one{.name = name,
                           .bytes = static_cast<int64_t>(cache->attr->cache.size),
                           .count = 1,
                           .cores_each = cores_inside(topology, cache)};
      // Processors with two kinds of cores have two kinds of caches.
      const auto same = std::ranges::find_if(groups, [&](const CacheGroup& group) {
        return group.name == one.name && group.bytes == one.bytes && group.cores_each == one.cores_each;
      });
      if (same == groups.end()) {
        groups.push_back(one);
      } else {
        ++same->count;
      }
    }
  }
  return groups;
}

Package package_of(hwloc_topology_t topology, hwloc_obj_t object) {
  return {.processor = info_of(object, "CPUModel"),
          .cores = cores_inside(topology, object),
          .hardware_threads = count_inside(topology, object, HWLOC_OBJ_PU),
          .cpus = list_of(*object->cpuset),
          .caches = caches_inside(topology, object)};
}

std::vector<Package> packages_of(hwloc_topology_t topology) {
  std::vector<Package> packages;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object)) != nullptr) {
    packages.push_back(package_of(topology, object));
  }
  if (packages.empty()) packages.push_back(package_of(topology, hwloc_get_root_obj(topology)));
  return packages;
}

std::vector<NumaNode> numa_nodes_of(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr) {
    nodes.push_back({.index = static_cast<int>(object->os_index),
                     .memory_bytes = static_cast<int64_t>(object->attr->numanode.local_memory),
                     .cpus = list_of(*object->cpuset)});
  }
  return nodes;
}

constexpr unsigned short kNvidia = 0x10de;
/// The upper byte of the PCI class of displays.
constexpr unsigned short kDisplayClass = 0x03;

using PciFacts = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

struct Found {
  Device device;
  hwloc_obj_t object = nullptr;
};

bool is_nvidia_gpu(const PciFacts& pci) {
  return pci.vendor_id == kNvidia && (pci.class_id >> 8) == kDisplayClass;
}

/// Names of the device's interfaces, InfiniBand's before Ethernet's: "mlx5_0", "ib0".
std::vector<std::string> network_names(hwloc_obj_t device) {
  std::vector<std::string> verbs, interfaces;
  for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || child->name == nullptr) continue;
    if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) verbs.push_back(plain_text(child->name));
    if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) interfaces.push_back(plain_text(child->name));
  }
  verbs.insert(verbs.end(), interfaces.begin(), interfaces.end());
  return verbs;
}

/// The part of the machine, with processors, that the device's host bridge is attached to.
hwloc_obj_t attachment_of(hwloc_obj_t object) {
  while (hwloc_obj_type_is_io(object->type)) object = object->parent;
  return object;
}

Device common_facts(hwloc_obj_t object) {
  const PciFacts& pci = object->attr->pcidev;
  Device device;
  device.pci_bus_id = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
  device.name = info_of(object, "PCIDevice");
  const hwloc_obj_t place = attachment_of(object);
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

/// The bridges from a device up to the part of the machine that has processors, that part included.
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
  // A bridge attached to the whole of a machine with several nodes is near to no node in particular.
  const bool anywhere = hwloc_bitmap_weight(one->nodeset) != 1 && one == machine;
  return anywhere ? PathKind::kSystem : PathKind::kNode;
}

/// The last index, in way_up() of two devices on one switch, of the bridge where they meet:
///
///        upstream bridge of the switch            place 1: devices of the switch meet here
///          |                     |
///   downstream bridge     downstream bridge       place 0: devices that share a slot meet here
///          |                     |
///        GPU0                  GPU1
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

/// NVIDIA's GPUs and all network devices on the PCI bus, in its order, with the paths between them.
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

/// Has hwloc find PCI devices.
void keep_devices(hwloc_topology_t topology) {
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
#if HWLOC_API_VERSION >= 0x00020100
  // Plugins that would start a driver, or ask a display, for facts that NVML reports. The plugin of
  // libpciaccess only adds names of devices, and leaks memory each time.
  for (const char* plugin : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci"}) {
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plugin);
  }
#endif
}

System described(hwloc_topology_t topology) {
  return {.host = info_of(hwloc_get_root_obj(topology), "HostName"),
          .packages = packages_of(topology),
          .numa_nodes = numa_nodes_of(topology),
          .map = pci_devices(topology),
          .why_no_gpus = ""};
}

/// Whether `work` comes to its end, tried in a child process, which then ends by SIGKILL: exit handlers are
/// this process's.
template <typename Work>
bool survives(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::raise(SIGKILL);
  }
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return child < 0 || WTERMSIG(status) == SIGKILL;
}

int count(const HwlocTopology& topology, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(topology.get(), type));
}

/// The number of objects of this type that have at least one hardware thread in the mask.
int count_within(const HwlocTopology& topology, hwloc_obj_type_t type, const Bitmap& mask) {
  int inside = 0;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology.get(), type, object)) != nullptr) {
    inside += hwloc_bitmap_intersects(object->cpuset, mask.get());
  }
  return inside;
}

void count_cores(Machine& machine) {
  // The count of online processors stands in for all counts where hwloc fails.
  const int online = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  machine.cores = machine.host_cores = machine.hardware_threads = machine.host_hardware_threads = online;
  const HwlocTopology topology = load_topology([](hwloc_topology_t) { return true; });
  if (!topology) return;
  machine.packages = count(topology, HWLOC_OBJ_PACKAGE);
  machine.numa_nodes = count(topology, HWLOC_OBJ_NUMANODE);
  machine.host_hardware_threads = count(topology, HWLOC_OBJ_PU);
  // Some virtual machines do not show which hardware threads share a core.
  const bool has_cores = count(topology, HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t core = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  machine.host_cores = count(topology, core);
  machine.cores = machine.host_cores;
  machine.hardware_threads = machine.host_hardware_threads;
  const Bitmap mask = new_bitmap();
  if (hwloc_get_cpubind(topology.get(), mask.get(), HWLOC_CPUBIND_THREAD) == 0) {
    machine.cores = count_within(topology, core, mask);
    machine.hardware_threads = hwloc_bitmap_weight(mask.get());
  }
  if (machine.processor.empty()) {
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, 0);
    if (package != nullptr) machine.processor = info_of(package, "CPUModel");
  }
}

/// A thread that has used up the quota is stopped until the next period, so only whole cores count.
void limit_cores(Machine& machine) {
  if (machine.cpu_quota)
    machine.cores = std::min(machine.cores, static_cast<int>(std::floor(*machine.cpu_quota + 1e-6)));
  machine.cores = std::max(1, machine.cores);
}

void apply_limits(Machine& machine, const CgroupLimits& limits) {
  if (limits.cpus && *limits.cpus < machine.hardware_threads) machine.cpu_quota = limits.cpus;
  limit_cores(machine);
  if (limits.memory_bytes) machine.memory_bytes = std::min(machine.memory_bytes, *limits.memory_bytes);
  if (limits.memory_free_bytes) {
    machine.available_memory_bytes = std::min(machine.available_memory_bytes, *limits.memory_free_bytes);
  }
}

}  // namespace

System read_host_system() {
  const HwlocTopology topology = load_topology([](hwloc_topology_t raw) {
    keep_devices(raw);
    return true;
  });
  System system = topology ? described(topology.get()) : System();
  system.host = host_name();
  return system;
}

System system_from_xml(std::string_view xml, std::string_view name) {
  const auto load = [text = std::string(xml)] {
    return load_topology([&](hwloc_topology_t raw) {
      keep_devices(raw);
      // hwloc counts the terminating zero.
      return hwloc_topology_set_xmlbuffer(raw, text.c_str(), static_cast<int>(text.size() + 1)) == 0;
    });
  };
  // hwloc crashes on some broken files.
  const auto read = [&] {
    if (const HwlocTopology topology = load()) described(topology.get());
  };
  const HwlocTopology topology = survives(read) ? load() : nullptr;
  if (!topology) {
    throw Error(fmt::format("'{}' is no topology that hwloc can read, or is cut off", name),
                "Write it anew: lstopo FILE.xml");
  }
  System system = described(topology.get());
  if (system.map.gpus() > 0) system.why_no_gpus = "a recording by hwloc has neither their memory nor NVLinks";
  return system;
}

System with_gpus(System system, DeviceMap gpus) {
  const DeviceMap bus = std::exchange(system.map, std::move(gpus));
  DeviceMap& map = system.map;
  // The index of each device in the bus's map.
  std::vector<std::optional<size_t>> on_bus;
  for (Device& gpu : map.devices) {
    const auto found = std::ranges::find(bus.devices, gpu.pci_bus_id, &Device::pci_bus_id);
    on_bus.emplace_back();
    if (found == bus.devices.end() || gpu.pci_bus_id.empty()) continue;
    on_bus.back() = static_cast<size_t>(found - bus.devices.begin());
    if (!gpu.numa_node) gpu.numa_node = found->numa_node;
    if (gpu.cpu_affinity.empty()) gpu.cpu_affinity = found->cpu_affinity;
  }
  for (size_t i = 0; i < bus.devices.size(); ++i) {
    if (bus.devices[i].kind == DeviceKind::kGpu) continue;
    map.devices.push_back(bus.devices[i]);
    on_bus.emplace_back(i);
  }
  map.paths.resize(map.devices.size());
  for (size_t one = 0; one < map.devices.size(); ++one) {
    map.paths[one].resize(map.devices.size());
    for (size_t other = 0; other < map.devices.size(); ++other) {
      Path& path = map.paths[one][other];
      if (path.kind == PathKind::kUnknown && on_bus[one] && on_bus[other])
        path = bus.paths[*on_bus[one]][*on_bus[other]];
    }
  }
  return system;
}

Machine inspect_host() {
  Machine machine;
  machine.host = host_name();
  read_system_files(machine);
  count_cores(machine);
  apply_limits(machine, read_cgroup_limits());
  return machine;
}

System inspect_system() {
  const Nvml nvml;
  System system = read_host_system();
  if (nvml.why_not().empty()) return with_gpus(std::move(system), nvml.map());
  system.why_no_gpus = nvml.why_not();
  return system;
}

DeviceMap inspect_gpus() {
  const Nvml nvml;
  if (nvml.gpus() == 0) return {};
  return with_gpus(read_host_system(), nvml.map()).map;
}

void unite_masks(const std::vector<RankMask>& masks, std::vector<Machine>& machines) {
  for (Machine& machine : machines) {
    std::set<int> cores, hardware_threads;
    for (const RankMask& mask : masks) {
      if (mask.host != machine.host) continue;
      cores.insert(mask.cores.begin(), mask.cores.end());
      hardware_threads.insert(mask.hardware_threads.begin(), mask.hardware_threads.end());
    }
    if (cores.empty()) continue;
    machine.cores = static_cast<int>(cores.size());
    machine.hardware_threads = static_cast<int>(hardware_threads.size());
    limit_cores(machine);
  }
}

}  // namespace lockstep::topology
