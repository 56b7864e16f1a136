#include "lockstep/topology/hwloc_handle.h"

namespace lockstep::topology {

HwlocTopology new_hwloc_topology() {
  hwloc_topology_t raw = nullptr;
  return HwlocTopology(hwloc_topology_init(&raw) == 0 ? raw : nullptr);
}

std::string list_of(const hwloc_bitmap_s& bits) {
  const int length = hwloc_bitmap_list_snprintf(nullptr, 0, &bits);
  if (length <= 0) return "";
  std::string text(static_cast<size_t>(length), '\0');
  hwloc_bitmap_list_snprintf(text.data(), text.size() + 1, &bits);
  return text;
}

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value != nullptr ? value : "";
}

}  // namespace lockstep::topology
