#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/fields.h"

namespace lockstep::results {

/// How a queue between where batches come from and the step was used, by all ranks together, over all steps
/// of a launch but the first.
struct InputQueue {
  /// "made", "read" or "received" by producers; "staged", on the device, which is what the step waits for.
  std::string name;
  /// Batches that the queue of one rank holds, and threads that fill it.
  int capacity = 0;
  int producers = 1;
  /// Batches taken.
  int64_t batches = 0;
  /// Batches that were ready when one was wanted, mean.
  double depth = 0;
  /// How often one was wanted and was not ready, and how long was waited for these, in all.
  int64_t empty = 0;
  double empty_s = 0;
  /// How often a producer found no room, and how long it waited, in all.
  int64_t full = 0;
  double full_s = 0;
  /// Throughput, counted in 8-bit pixels; sum over the ranks.
  double images_per_s = 0;
  double gb_per_s = 0;
  /// Mean time that a producer worked on one batch; empty: none was made.
  std::optional<double> producer_s;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("name", self.name, kRequired);
    LOCKSTEP_FIELDS(kOptional, capacity, producers, batches, depth, empty, empty_s, full, full_s,
                    images_per_s, gb_per_s, producer_s);
  }
};

}  // namespace lockstep::results
