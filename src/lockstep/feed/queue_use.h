#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/fields.h"

namespace lockstep::feed {

/// Counts of one queue of batches on one rank. The first batch is left out, before which nothing could be
/// ready. (results::InputQueue has the figures that follow from the counts of all ranks.)
struct QueueUse {
  std::string name;
  /// Batches that it holds besides the one that its consumer has.
  int capacity = 0;
  int producers = 1;
  int64_t images_per_batch = 0;
  /// Size of 8-bit pixels.
  int64_t bytes_per_batch = 0;

  /// Batches taken so far, and the seconds spent taking them.
  int64_t batches = 0;
  double elapsed_s = 0;
  /// Sum over `batches` of the number ready at the time when one was wanted.
  int64_t ready = 0;
  /// Times that no batch was ready when one was wanted, and the seconds that the consumer waited for these.
  int64_t empty = 0;
  double empty_s = 0;
  /// Times that a producer found no room, and the seconds that it waited.
  int64_t full = 0;
  double full_s = 0;
  /// Batches made, and the seconds of work on them, without waiting.
  int64_t made = 0;
  double made_s = 0;
  /// Batches of strangers that were not taken, and what the first of them was; empty without any.
  int64_t refused = 0;
  std::string first_refused;

  LOCKSTEP_DESCRIBE(kOptional, name, capacity, producers, images_per_batch, bytes_per_batch, batches,
                    elapsed_s, ready, empty, empty_s, full, full_s, made, made_s, refused, first_refused)
};

}  // namespace lockstep::feed
