#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/replica/flat_memory.h"

namespace lockstep::strategies {

/// A stretch of flat gradient memory that is sent as one.
struct Bucket {
  replica::Range range;
  /// Parameters that lie in it, wholly or in part.
  std::vector<size_t> parameters;
};

struct BucketRules {
  /// What is cut; without it everything, padding included.
  std::optional<replica::Range> within;
  /// Every bucket has a multiple of so many elements, as has what is cut.
  int64_t multiple_of = 1;
};

/// Cuts flat memory into buckets of at most `cap_bytes`, from the front: what is ready first is sent first. A
/// tensor larger than that is split. The last bucket is small (at most 1 MiB), because nothing is left to
/// hide it behind. No bucket is smaller than `multiple_of`, whatever the cap; of an empty range there is
/// none.
std::vector<Bucket> plan_buckets(const replica::FlatMemory& memory, int64_t cap_bytes,
                                 const BucketRules& rules = {});

}  // namespace lockstep::strategies
