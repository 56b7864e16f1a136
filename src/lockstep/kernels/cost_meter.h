#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

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

}  // namespace lockstep::kernels
