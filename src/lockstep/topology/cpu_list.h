#pragma once

#include <memory>
#include <string>

#include <hwloc/bitmap.h>

namespace lockstep::topology {

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

inline Bitmap new_bitmap() {
  return Bitmap(hwloc_bitmap_alloc());
}

/// "0-19,40-59"; empty for none.
std::string list_of(const hwloc_bitmap_s& bits);

}  // namespace lockstep::topology
