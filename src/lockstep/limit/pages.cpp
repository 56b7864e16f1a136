#include "lockstep/limit/pages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sys/mman.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"

namespace lockstep::limit {

Pages::Pages(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
  data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED) {
    throw Error("no memory for an operand of " + format_bytes(static_cast<int64_t>(bytes_)),
                "Measure the limit of a smaller batch.");
  }
  // As training gets its memory where the system has huge pages for those who ask; refused where it has none.
  ::madvise(data_, bytes_, MADV_HUGEPAGE);
  std::memset(data_, 0, bytes_);
}

Pages::~Pages() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

}  // namespace lockstep::limit
