#include "lockstep/topology/hwloc_system.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/topology/cpu_list.h"
#include "lockstep/topology/hwloc_handle.h"
#include "lockstep/topology/pci_devices.h"

namespace lockstep::topology {
namespace {

int count_inside(hwloc_topology_t topology, hwloc_obj_t outer, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_inside_cpuset_by_type(topology, outer->cpuset, type));
}

/// Some virtual machines do not tell which hardware threads share a core: each is one then.
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

/// What is set before a topology is loaded, whatever it is loaded from.
void prepare(hwloc_topology_t topology) {
  // Cores outside of the cpuset belong to the host too.
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
#if HWLOC_API_VERSION >= 0x00020100
  // Plugins that would start a driver, or ask a display, to learn what is asked for elsewhere. That of
  // libpciaccess adds the names of devices to what Linux shows, and loses memory each time.
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

}  // namespace

System read_host_system() {
  System system;
  const HwlocTopology topology = new_hwloc_topology();
  if (topology) {
    prepare(topology.get());
    if (hwloc_topology_load(topology.get()) == 0) system = described(topology.get());
  }
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0) system.host = name;
  return system;
}

System system_from_xml(std::string_view xml, std::string_view name) {
  const HwlocTopology topology = new_hwloc_topology();
  if (!topology) throw Error("hwloc cannot be started");
  prepare(topology.get());
  // hwloc wants the terminating zero counted.
  const std::string text(xml);
  if (hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(), static_cast<int>(text.size() + 1)) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    throw Error(fmt::format("'{}' is no topology that hwloc can read, or is cut off", name),
                "Write it anew: lstopo FILE.xml");
  }
  System system = described(topology.get());
  if (system.map.gpus() > 0) system.why_no_gpus = "what hwloc records has neither their memory nor NVLinks";
  return system;
}

System system_from_synthetic(const std::string& description) {
  const HwlocTopology topology = new_hwloc_topology();
  if (!topology) throw Error("hwloc cannot be started");
  prepare(topology.get());
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    throw ConfigError(fmt::format("'{}' is not a synthetic topology of hwloc's", description));
  }
  return described(topology.get());
}

}  // namespace lockstep::topology
