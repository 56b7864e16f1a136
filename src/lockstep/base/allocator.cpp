#include "lockstep/base/allocator.h"

#include <climits>

#include <malloc.h>

namespace lockstep {

std::string keep_freed_pages() {
#ifdef __GLIBC__
  // No block is mapped on its own, the top of the heap is never trimmed, and all threads share the one heap
  // that can grow without bound (the other arenas are limited to 64 MiB each).
  const bool set = mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, INT_MAX) == 1 &&
                   mallopt(M_TOP_PAD, 64 << 20) == 1 && mallopt(M_ARENA_MAX, 1) == 1;
  if (set) return "glibc malloc, pages kept";
#endif
  return "the system's malloc";
}

}  // namespace lockstep
