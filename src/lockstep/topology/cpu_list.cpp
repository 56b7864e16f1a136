#include "lockstep/topology/cpu_list.h"

namespace lockstep::topology {

std::string list_of(const hwloc_bitmap_s& bits) {
  const int length = hwloc_bitmap_list_snprintf(nullptr, 0, &bits);
  if (length <= 0) return "";
  std::string text(static_cast<size_t>(length), '\0');
  hwloc_bitmap_list_snprintf(text.data(), text.size() + 1, &bits);
  return text;
}

}  // namespace lockstep::topology
