#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::data {

struct ShardOptions {
  /// Number of samples in the whole data set.
  int64_t samples = 0;
  /// Samples per batch of one rank.
  int64_t batch = 1;
  int rank = 0;
  int ranks = 1;
  uint64_t seed = 1;
  /// Batches that a rank needs for a step: an epoch is a whole number of steps.
  int64_t batches_per_step = 1;
  /// Samples come in order, each exactly once. Otherwise they are shuffled anew in every epoch, and those
  /// that do not fill a last step are left out of the epoch.
  bool evaluation = false;
};

/// One batch of one rank.
struct ShardBatch {
  /// Number of the epoch, from 0.
  int64_t epoch = 0;
  /// Numbers of the samples, in the order of the batch.
  std::vector<int64_t> samples;
};

/// The samples of each batch of one rank. Sample i of a global batch belongs to rank i / batch, so in every
/// step the ranks together get the samples that one rank with the joint batch would get, whatever their
/// number.
class Shards {
 public:
  /// Throws ConfigError if there are not enough samples for one step.
  explicit Shards(const ShardOptions& options);

  /// Batches of this rank. In an evaluation the last global batch may be smaller, so that the last batch of a
  /// rank is smaller or missing: ranks may differ by one.
  int64_t batches_per_epoch() const { return batches_per_epoch_; }

  /// Batches are counted through all epochs. The seed of the augmentation of sample s in it is
  /// augmentation_seed(seed, epoch, s).
  ShardBatch batch(int64_t number);

 private:
  void shuffle(int64_t epoch);

  ShardOptions options_;
  int64_t batches_per_epoch_ = 0;
  /// The epoch that order_ belongs to; -1: none yet.
  int64_t shuffled_epoch_ = -1;
  std::vector<int64_t> order_;
};

/// The seed of one sample's augmentation in one epoch, equal on all ranks.
uint64_t augmentation_seed(uint64_t seed, int64_t epoch, int64_t sample);

}  // namespace lockstep::data
