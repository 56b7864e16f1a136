#include "lockstep/base/allocator.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

// Sanitizers bring a malloc of their own.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_GLIBC_MALLOC
#endif

namespace lockstep {
namespace {

#ifdef LOCKSTEP_GLIBC_MALLOC
/// Whether memory can be reserved without being charged (vm.overcommit_memory is not 2).
bool reservations_are_free() {
  std::ifstream file("/proc/sys/vm/overcommit_memory");
  int mode = 2;
  return file >> mode && mode != 2;
}

/// Extends the heap, one range of addresses, to half of the machine's memory without touching it, marks the
/// range for huge pages and frees it again: later allocations lie in it.
bool ask_for_huge_pages() {
  if (!reservations_are_free()) return false;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const size_t bytes = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) / 2 * page;
  void* const block = std::malloc(bytes);
  if (block == nullptr) return false;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(block) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(block) + bytes) / page * page;
  const bool asked = ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE) == 0;
  std::free(block);
  return asked;
}
#endif

std::string set_up() {
#ifdef LOCKSTEP_GLIBC_MALLOC
  // No block gets a mapping of its own, the top of the heap is never trimmed, and all threads share the one
  // heap that can grow without bound (other arenas are limited to 64 MiB each).
  const bool kept = mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, -1) == 1 &&
                    mallopt(M_TOP_PAD, 64 << 20) == 1 && mallopt(M_ARENA_MAX, 1) == 1;
  if (kept) {
    return std::string("glibc malloc, pages kept") + (ask_for_huge_pages() ? ", huge pages asked for" : "");
  }
#endif
  return "the system's malloc";
}

}  // namespace

std::string keep_freed_pages() {
  static const std::string done = set_up();
  return done;
}

}  // namespace lockstep
