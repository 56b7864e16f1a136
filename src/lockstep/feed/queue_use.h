#pragma once

#include <cstdint>
#include <string>

namespace lockstep::feed {

/// How a queue of batches was used, without its first batch, before which nothing could be ready.
struct QueueUse {
  std::string name;
  /// Batches that it holds beside the one that its consumer has.
  int capacity = 0;
  int producers = 1;
  int64_t images_per_batch = 0;
  /// As 8-bit pixels.
  int64_t bytes_per_batch = 0;

  /// That were taken, and the time in which they were.
  int64_t batches = 0;
  double elapsed_s = 0;
  /// Batches that were ready when one was wanted, summed over `batches`.
  int64_t ready = 0;
  /// How often one was wanted and was not ready, and how long its consumer waited for these.
  int64_t empty = 0;
  double empty_s = 0;
  /// How often a producer found no room, and how long it waited for it.
  int64_t full = 0;
  double full_s = 0;
  /// Seconds that producers worked on `made` batches, waiting left out.
  int64_t made = 0;
  double made_s = 0;
};

}  // namespace lockstep::feed
