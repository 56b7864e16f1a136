#pragma once

#include <cstdint>
#include <span>

#include "lockstep/feed/normalize.h"

namespace lockstep::feed {

/// A batch of one rank in host memory: 8-bit pixels [batch, height, width, channels], and a label each.
struct BatchShape {
  int64_t batch = 32;
  int64_t channels = 3;
  int64_t image_size = 224;

  int64_t image_bytes() const { return channels * image_size * image_size; }
  int64_t bytes() const { return batch * image_bytes(); }
};

/// Fills `out` with uniform bytes, at several GB/s: byte i is byte i % 8 of splitmix64's output number i / 8.
void fill_with_noise(uint64_t seed, std::span<uint8_t> out);

/// Makes random batches with uniform pixels and labels. A sample depends on nothing but the seed and its
/// place among all samples of all batches, so the ranks together get the samples that one rank with the joint
/// batch would get.
class RandomBatches {
 public:
  /// `rank`, `ranks`: this rank's place among those that share a global batch.
  RandomBatches(const BatchShape& shape, int64_t classes, uint64_t seed, int rank = 0, int ranks = 1)
      : shape_(shape), classes_(classes), seed_(seed), rank_(rank), ranks_(ranks) {}

  const BatchShape& shape() const { return shape_; }

  /// Writes this rank's part of global batch `number`: shape().bytes() pixels, shape().batch labels. Any
  /// thread may call it.
  void make(int64_t number, uint8_t* pixels, int64_t* labels) const {
    make_part(number, 0, shape_.batch, pixels, labels);
  }

  /// Writes only samples `first` to `end` of it; `pixels` and `labels` begin with the whole batch.
  void make_part(int64_t number, int64_t first, int64_t end, uint8_t* pixels, int64_t* labels) const;

 private:
  BatchShape shape_;
  int64_t classes_;
  uint64_t seed_;
  int rank_;
  int ranks_;
};

/// Mean and standard deviation of uniform bytes, as parts of 255.
constexpr float kNoiseMean = 0.5F;
constexpr float kNoiseDeviation = 0.28980498F;

/// Normalizes random batches by these.
Scaling scaling_of_noise();

}  // namespace lockstep::feed
