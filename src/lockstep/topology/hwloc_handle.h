#pragma once

#include <memory>
#include <string>
#include <utility>

#include <hwloc.h>

#include "lockstep/base/plain_text.h"

namespace lockstep::topology {

// hwloc's objects with owners, for the .cpp files of this part.

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

/// The topology of a whole host, from the source that `set_up` chooses; null where that or loading fails.
template <typename SetUp>
HwlocTopology load_topology(const SetUp& set_up) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  HwlocTopology topology(raw);
  // Cores outside of the cpuset belong to the host, too.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  return set_up(raw) && hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
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
