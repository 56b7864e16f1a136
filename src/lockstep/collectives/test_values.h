#pragma once

#include <cstdint>
#include <string>

#include "lockstep/comm/types.h"

namespace lockstep::collectives {

/// Small whole numbers that repeat along a buffer, others for every rank: what a rank contributes, or their
/// sum over all ranks. Exact in every type, also summed, for up to 255 ranks.
class TestValues {
 public:
  /// `ranks`: of the job. `rank`: -1 for the sum.
  TestValues(comm::DType dtype, int ranks, int rank);

  /// Writes elements [first, first + count) of the pattern.
  void fill(void* data, size_t first, size_t count) const;
  /// Elements that differ from the pattern's [first, first + count).
  int64_t count_wrong(const void* data, size_t first, size_t count) const;

 private:
  /// Calls `visit(place in the buffer, place in tile_, bytes)` for each run of elements of one tile.
  template <typename Visit>
  void in_runs(size_t first, size_t count, Visit visit) const;

  size_t width_;
  /// Elements after which the values repeat.
  size_t period_;
  /// Several periods.
  std::string tile_;
};

}  // namespace lockstep::collectives
