#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/replica/flat_memory.h"

namespace lockstep::strategies {

/// A range of flat gradient memory that is sent as one message.
struct Bucket {
  replica::Range range;
  /// Parameters that are in it, completely or in part.
  std::vector<size_t> parameters;
};

struct BucketRules {
  /// The range to divide; absent: everything, including the padding.
  std::optional<replica::Range> within;
  /// The size of every bucket is a multiple of this many elements. The range's size must be one as well.
  int64_t multiple_of = 1;
};

/// Divides flat memory into buckets of at most `cap_bytes`, from the front, because the first gradients are
/// ready first:
///
///     | cap_bytes | cap_bytes | ... | the rest | at most 1 MiB |
///
/// A larger tensor is split. The last bucket is small, because no computation is left to overlap with it. No
/// bucket is smaller than `multiple_of`, whatever the cap. An empty range has no buckets.
std::vector<Bucket> plan_buckets(const replica::FlatMemory& memory, int64_t cap_bytes,
                                 const BucketRules& rules = {});

}  // namespace lockstep::strategies
