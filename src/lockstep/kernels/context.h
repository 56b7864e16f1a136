#pragma once

#include <cstdint>

#include "lockstep/kernels/cost_meter.h"
#include "lockstep/kernels/kernel_choice.h"

namespace lockstep::kernels {

class LayerWatch;

/// What a forward pass knows beyond its images.
struct Context {
  bool training = true;
  /// Fused kernels are for training; without it LibTorch's operations compute whatever this says.
  KernelChoice kernels = KernelChoice::kAten;
  /// false: dropout drops nothing, also in training. For comparisons with networks that draw other masks.
  bool dropout = true;
  /// Dropout masks and the like depend on (seed, step, layer, index of the sample in the global batch) alone.
  uint64_t seed = 1;
  int64_t step = 0;
  int64_t first_sample = 0;
  /// Null in normal operation.
  CostMeter* cost = nullptr;
  /// Likewise.
  LayerWatch* layers = nullptr;

  bool fuses() const { return training && kernels == KernelChoice::kFused; }
};

}  // namespace lockstep::kernels
