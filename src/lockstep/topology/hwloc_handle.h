#pragma once

#include <memory>
#include <string>

#include <hwloc.h>

namespace lockstep::topology {

// hwloc's objects with owners, for the .cpp files of this part.

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

/// Null if there is no memory for one.
HwlocTopology new_hwloc_topology();

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

inline Bitmap new_bitmap() {
  return Bitmap(hwloc_bitmap_alloc());
}

/// "0-19,40-59"; empty for none.
std::string list_of(const hwloc_bitmap_s& bits);

/// A fact that hwloc keeps as text under `name`; empty if it has none.
std::string info_of(hwloc_obj_t object, const char* name);

}  // namespace lockstep::topology
