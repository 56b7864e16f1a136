#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
};

/// Over the ranks.
struct ByteRange {
  int64_t least = 0;
  int64_t most = 0;
};

/// What a replica keeps from step to step, of the rank that keeps the least and of the one that keeps the
/// most.
struct ReplicaMemory {
  ByteRange parameters;
  ByteRange gradients;
  ByteRange momenta;
  /// What is copied to for the exchange with other ranks.
  ByteRange buffers;
  ByteRange total;
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
  /// Why this one was chosen, as a sentence without its stop.
  std::string reason;
};

}  // namespace lockstep::results
