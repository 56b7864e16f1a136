#pragma once

#include <cstdint>

#include "lockstep/kernels/cost_meter.h"

namespace lockstep::kernels {

/// What a forward pass knows beyond its images.
struct Context {
  bool training = true;
  /// false: dropout drops nothing, also in training. For comparisons with networks that draw other masks.
  bool dropout = true;
  /// Dropout masks and the like depend on (seed, step, layer, index of the sample in the global batch) alone.
  uint64_t seed = 1;
  int64_t step = 0;
  int64_t first_sample = 0;
  /// Null in normal operation.
  CostMeter* cost = nullptr;
};

}  // namespace lockstep::kernels
