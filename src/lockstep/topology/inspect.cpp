#include "lockstep/topology/inspect.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <unistd.h>

#include "lockstep/base/host_name.h"
#include "lockstep/topology/hwloc_handle.h"
#include "lockstep/topology/nvml.h"
#include "lockstep/topology/system_files.h"

namespace lockstep::topology {
namespace {

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
