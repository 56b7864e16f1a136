#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// Counted by the blocks when a forward pass runs with one: what the pass costs for the batch it was given.
struct CostMeter {
  /// Of convolutions and linear layers.
  int64_t multiply_adds = 0;
  /// Values (not bytes) in the precision of the activations that are kept for the backward pass. Each block
  /// counts what it makes; the images that enter the network are the caller's.
  int64_t saved_values = 0;
  /// What is kept beside them in a type of its own: the indices of max pooling.
  int64_t saved_index_bytes = 0;
};

/// What a forward pass knows beyond its images.
struct Context {
  bool training = true;
  /// Dropout masks and the like depend on (seed, step, layer, index of the sample in the global batch) alone.
  uint64_t seed = 1;
  int64_t step = 0;
  int64_t first_sample = 0;
  /// Null in normal operation.
  CostMeter* cost = nullptr;
};

}  // namespace lockstep::kernels
