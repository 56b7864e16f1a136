#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/fields.h"

namespace lockstep::results {

/// Whether the replicas were compared bit for bit while they trained, and found equal: a run in which they
/// differ ends.
struct ReplicaChecks {
  /// Steps from one comparison to the next.
  int every = 0;
  /// How often; of all launches together.
  int checks = 0;
  /// Why there was nothing to compare; empty where there was.
  std::string not_applicable;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    LOCKSTEP_FIELDS(kOptional, every, checks)
    fields("not_applicable", self.not_applicable, kNullable);
  }
};

/// Over the ranks.
struct ByteRange {
  int64_t least = 0;
  int64_t most = 0;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& range) {
    fields("min_bytes", range.least);
    fields("max_bytes", range.most);
  }
};

/// Memory of a replica, on the ranks that have the least and the most.
struct ReplicaMemory {
  ByteRange parameters;
  ByteRange gradients;
  ByteRange momenta;
  /// Copies made for the exchange with other ranks.
  ByteRange buffers;
  /// Of those: what is kept from step to step.
  ByteRange total;
  /// The most at a time in a step: whole units of parameters and gradients where ranks keep shards; and all
  /// else, activations above all. 0: not known.
  ByteRange gathered;
  ByteRange activations;
  /// The sum.
  ByteRange peak;

  LOCKSTEP_DESCRIBE(kOptional, parameters, gradients, momenta, buffers, total, gathered, activations, peak)
};

/// A cap of a bucket that was tried.
struct BucketCandidate {
  double bucket_mb = 0;
  /// Timed steps, in so many blocks spread over the search.
  int steps = 0;
  int blocks = 0;
  /// Median of the steps, and of the fastest and the slowest block.
  double step_s = 0;
  double fastest_block_s = 0;
  double slowest_block_s = 0;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("bucket_mb", self.bucket_mb, kRequired);
    LOCKSTEP_FIELDS(kOptional, steps, blocks);
    fields("step_p50_s", self.step_s);
    LOCKSTEP_FIELDS(kOptional, fastest_block_s, slowest_block_s);
  }
};

/// How the cap of a bucket was found (`--tune buckets`).
struct BucketTuning {
  double budget_s = 0;
  /// Ascending by cap.
  std::vector<BucketCandidate> candidates;
  double chosen_mb = 0;
  double default_mb = 0;
  /// The fastest of the search, and how many times as fast as the default it was in blocks of their own, run
  /// in turn; empty where the default was the fastest, or nothing could be compared.
  double best_mb = 0;
  std::optional<double> speedup;
  std::optional<double> speedup_low, speedup_high;
  /// Why this cap was chosen, as a sentence without its period.
  std::string reason;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("budget_s", self.budget_s);
    LOCKSTEP_FIELDS(kRequired, candidates, chosen_mb);
    LOCKSTEP_FIELDS(kOptional, default_mb, best_mb);
    fields("speedup_of_best", self.speedup);
    LOCKSTEP_FIELDS(kOptional, speedup_low, speedup_high, reason);
  }
};

}  // namespace lockstep::results
