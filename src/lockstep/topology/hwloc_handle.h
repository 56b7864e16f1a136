#pragma once

#include <memory>
#include <string>

#include <hwloc.h>

namespace lockstep::topology {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};

/// hwloc's own topology.
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

/// Null where there is no memory for one.
inline HwlocTopology new_hwloc_topology() {
  hwloc_topology_t raw = nullptr;
  return HwlocTopology(hwloc_topology_init(&raw) == 0 ? raw : nullptr);
}

/// A fact that hwloc keeps as text; empty where it has none by this name.
inline std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value != nullptr ? value : "";
}

}  // namespace lockstep::topology
