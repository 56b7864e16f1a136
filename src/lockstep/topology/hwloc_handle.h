#pragma once

#include <memory>
#include <string>

#include <hwloc.h>

#include "lockstep/base/plain_text.h"

namespace lockstep::topology {

// hwloc's objects with owners, for the .cpp files of this part.

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

/// Null if there is no memory for one.
inline HwlocTopology new_hwloc_topology() {
  hwloc_topology_t raw = nullptr;
  return HwlocTopology(hwloc_topology_init(&raw) == 0 ? raw : nullptr);
}

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

inline Bitmap new_bitmap() {
  return Bitmap(hwloc_bitmap_alloc());
}

/// "0-19,40-59"; empty for none.
inline std::string list_of(const hwloc_bitmap_s& bits) {
  const int length = hwloc_bitmap_list_snprintf(nullptr, 0, &bits);
  if (length <= 0) return "";
  std::string text(static_cast<size_t>(length), '\0');
  hwloc_bitmap_list_snprintf(text.data(), text.size() + 1, &bits);
  return text;
}

/// A fact that hwloc keeps as text under `name`; empty if it has none.
inline std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value != nullptr ? plain_text(value) : "";
}

}  // namespace lockstep::topology
