#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/cost_meter.h"
#include "lockstep/kernels/kernel_choice.h"

namespace lockstep::kernels {

class LayerWatch;

/// What a forward pass knows beyond its images.
struct Context {
  bool training = true;
  /// Fused kernels are for training on the CPU; elsewhere LibTorch's operations compute whatever this says.
  KernelChoice kernels = KernelChoice::kAten;
  /// false: dropout drops nothing, also in training. For comparisons with networks that draw other masks.
  bool dropout = true;
  /// Dropout masks and the like depend on (seed, step, layer, index of the sample in the global batch) alone.
  uint64_t seed = 1;
  int64_t step = 0;
  int64_t first_sample = 0;
  /// For a step that is recorded once and launched again: where its number lies then, one int64 in the memory
  /// of the images' device. Null: it is `step`.
  const at::Tensor* step_on_device = nullptr;
  /// Where blocks in training leave their counters of batches, for who runs the pass to raise all of them at
  /// once (count_batch): a launch for each takes a GPU longer than the sums. Null: each raises its own.
  std::vector<at::Tensor>* batch_counters = nullptr;
  /// Blocks compute with the narrower copies of their weights, where they have one: these are up to date.
  bool weight_copies = false;
  /// Null in normal operation.
  CostMeter* cost = nullptr;
  /// Likewise.
  LayerWatch* layers = nullptr;

  /// Whether a block is to try its fused kernel on x.
  bool fuses(const at::Tensor& x) const { return training && kernels == KernelChoice::kFused && x.is_cpu(); }
};

}  // namespace lockstep::kernels
