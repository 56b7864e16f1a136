#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// Told by the blocks when a forward pass runs with one: what the pass costs for the batch it was given.
class CostMeter {
 public:
  /// Of a convolution or a linear layer.
  void multiply_add(int64_t count) { multiply_adds_ += count; }

  /// The block's backward pass will need `activation`. Memory that several blocks keep counts once, so each
  /// block names what it keeps itself, not what its neighbours do.
  void keep(const at::Tensor& activation);
  /// What is kept in a type of its own, whatever the precision: the indices of max pooling.
  void keep_bytes(int64_t bytes) { other_bytes_ += bytes; }

  int64_t multiply_adds() const { return multiply_adds_; }
  /// Values (not bytes) in the precision of the activations.
  int64_t kept_values() const { return kept_values_; }
  int64_t kept_other_bytes() const { return other_bytes_; }

 private:
  /// Held, so that no two of them were the same memory one after the other.
  std::vector<at::Tensor> kept_;
  int64_t multiply_adds_ = 0;
  int64_t kept_values_ = 0;
  int64_t other_bytes_ = 0;
};

}  // namespace lockstep::kernels
