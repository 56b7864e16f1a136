#include "lockstep/topology/inspect.h"

#include <algorithm>
#include <cmath>

#include <unistd.h>

#include "lockstep/base/host_name.h"
#include "lockstep/topology/gpu_report.h"
#include "lockstep/topology/hwloc_handle.h"
#include "lockstep/topology/hwloc_system.h"
#include "lockstep/topology/nvml.h"
#include "lockstep/topology/system_files.h"

namespace lockstep::topology {
namespace {

/// Null if hwloc does not work here.
HwlocTopology load_topology() {
  HwlocTopology topology = new_hwloc_topology();
  if (!topology) return nullptr;
  // Cores outside of the cpuset belong to the host, too.
  hwloc_topology_set_flags(topology.get(), HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  return hwloc_topology_load(topology.get()) == 0 ? std::move(topology) : nullptr;
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
  // The count of online processors stands in for everything that hwloc cannot tell.
  const int online = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  machine.cores = machine.host_cores = machine.hardware_threads = machine.host_hardware_threads = online;
  const HwlocTopology topology = load_topology();
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

void apply_limits(Machine& machine, const CgroupLimits& limits) {
  if (limits.cpus && *limits.cpus < machine.hardware_threads) {
    machine.cpu_quota = limits.cpus;
    // A thread that has used up the quota is stopped until the next period, so only whole cores count.
    machine.cores = std::min(machine.cores, static_cast<int>(std::floor(*limits.cpus + 1e-6)));
  }
  machine.cores = std::max(1, machine.cores);
  if (limits.memory_bytes) machine.memory_bytes = std::min(machine.memory_bytes, *limits.memory_bytes);
  if (limits.memory_free_bytes) {
    machine.available_memory_bytes = std::min(machine.available_memory_bytes, *limits.memory_free_bytes);
  }
}

}  // namespace

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
  if (nvml.why_not().empty()) return with_gpus(std::move(system), nvml.report());
  system.why_no_gpus = nvml.why_not();
  return system;
}

DeviceMap inspect_gpus() {
  const Nvml nvml;
  if (nvml.gpus() == 0) return {};
  return with_gpus(read_host_system(), nvml.report()).map;
}

}  // namespace lockstep::topology
