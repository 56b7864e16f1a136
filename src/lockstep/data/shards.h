#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::data {

struct ShardOptions {
  /// Of the whole data set.
  int64_t samples = 0;
  /// Per rank.
  int64_t batch = 1;
  int rank = 0;
  int ranks = 1;
  uint64_t seed = 1;
  /// That a rank needs for a step: an epoch is a whole number of steps.
  int64_t batches_per_step = 1;
  /// In order, every sample exactly once; else shuffled anew in every epoch, and what does not fill a step
  /// at its end is left out of this epoch.
  bool evaluation = false;
};

/// One batch of one rank.
struct ShardBatch {
  /// Counted from 0.
  int64_t epoch = 0;
  /// In the order of the batch.
  std::vector<int64_t> samples;
};

/// Which samples a rank gets, and when. Sample i of a global batch belongs to rank i / batch, so the ranks
/// together get in every step what one rank with the joint batch gets, whatever their number.
class Shards {
 public:
  /// Throws ConfigError where there are not enough samples for one step.
  explicit Shards(const ShardOptions& options);

  /// Of this rank. In an evaluation the last global batch may be smaller, so that the last batch of a rank is
  /// smaller, or none: ranks may differ by one.
  int64_t batches_per_epoch() const { return batches_per_epoch_; }

  /// Batches are counted through all epochs. The seed of the augmentation of sample s in it is
  /// augmentation_seed(seed, epoch, s).
  ShardBatch batch(int64_t number);

 private:
  void shuffle(int64_t epoch);

  ShardOptions options_;
  int64_t batches_per_epoch_ = 0;
  /// The epoch that order_ is of; -1: none yet.
  int64_t shuffled_epoch_ = -1;
  std::vector<int64_t> order_;
};

/// Of one sample in one epoch, on any rank.
uint64_t augmentation_seed(uint64_t seed, int64_t epoch, int64_t sample);

}  // namespace lockstep::data
