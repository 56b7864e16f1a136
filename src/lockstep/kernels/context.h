#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/kernel_choice.h"

namespace lockstep::cuda_kernels {
struct KernelsPluginV1;
}

namespace lockstep::kernels {

/// Counts the cost of one forward pass. Blocks report to it if the pass has one (Context::cost).
class CostMeter {
 public:
  /// Multiply-adds of a convolution or a linear layer.
  void multiply_add(int64_t count) { multiply_adds_ += count; }

  /// Reports that the block's backward pass needs `activation`. Memory kept by several blocks counts once, so
  /// a block reports only what it keeps itself.
  void keep(const at::Tensor& activation) {
    const bool known =
        std::ranges::any_of(kept_, [&](const at::Tensor& tensor) { return tensor.is_alias_of(activation); });
    if (known) return;
    kept_.push_back(activation);
    kept_values_ += static_cast<int64_t>(activation.storage().nbytes() / activation.itemsize());
  }
  /// Reports memory whose type does not depend on the precision, such as the indices of max pooling.
  void keep_bytes(int64_t bytes) { other_bytes_ += bytes; }

  int64_t multiply_adds() const { return multiply_adds_; }
  /// Values (not bytes) in the precision of the activations.
  int64_t kept_values() const { return kept_values_; }
  int64_t kept_other_bytes() const { return other_bytes_; }

 private:
  /// Held until the pass ends: freed memory could be reused and mistaken for a tensor that was counted.
  std::vector<at::Tensor> kept_;
  int64_t multiply_adds_ = 0;
  int64_t kept_values_ = 0;
  int64_t other_bytes_ = 0;
};

/// The ranks over whose batches batch norm takes its statistics. Outlives the backward pass.
struct NormRanks {
  /// Adds up fp64 numbers over the ranks, in place. Collective.
  std::function<void(const at::Tensor& numbers)> sum;
  int count = 1;
};

/// The settings of a forward pass.
struct Context {
  bool training = true;
  /// Fused kernels are for training on the CPU. Evaluation uses LibTorch's operations whatever this says, and
  /// so do GPUs, except for what gpu_kernels has.
  KernelChoice kernels = KernelChoice::kAten;
  /// The kernels of images in a GPU's memory, which normalize in training; null: LibTorch's operations.
  const cuda_kernels::KernelsPluginV1* gpu_kernels = nullptr;
  /// false: dropout is off, even in training. For comparisons with networks that draw other masks.
  bool dropout = true;
  /// Random values depend on (seed, step, layer, index of the sample in the global batch) alone.
  uint64_t seed = 1;
  int64_t step = 0;
  int64_t first_sample = 0;
  /// For a step that is recorded once and launched many times: the step's number as one int64 on the images'
  /// device, read when the step runs. Null: use `step`.
  const at::Tensor* step_on_device = nullptr;
  /// Whether blocks compute with the narrow copies of their weights (WeightCopies), which are up to date.
  bool weight_copies = false;
  /// Null: batch norm takes the statistics of this rank's own batch.
  const NormRanks* norm_ranks = nullptr;
  /// Null except when the cost of a network is measured.
  CostMeter* cost = nullptr;

  /// Whether a block should try its fused kernel on x.
  bool fuses(const at::Tensor& x) const { return training && kernels == KernelChoice::kFused && x.is_cpu(); }
};

}  // namespace lockstep::kernels
