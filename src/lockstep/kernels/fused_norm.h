#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// The trained and the running values of a batch normalization, fp32, [channels] each.
struct NormLayer {
  at::Tensor weight, bias, running_mean, running_variance;
  double epsilon = 1e-5;
  double momentum = 0.1;
};

/// An image that is used twice, by a path and a shortcut. Two tensors over the same memory, so that their
/// gradients reach the kernel that made the image separately; it adds them in its first pass instead of a
/// pass of their own.
struct Fork {
  at::Tensor path;
  /// The same tensor as `path` if the image was not forked.
  at::Tensor shortcut;
};

/// Operations fused into a normalization.
struct NormSteps {
  bool relu = false;
  /// Whether the result is two tensors (Fork).
  bool forks = false;
};

/// Batch normalization of a blocked fp32 or bf16 image in training: [relu](norm(x) [+ residual]). Updates the
/// running values. Two passes over a block of channels, the second one while the block is still in the cache.
/// Sums are of differences from a value of the channel, in fp32 over short runs and in fp64 beyond; the
/// number of threads does not change the bits. Keeps x and, with ReLU, the result for the backward pass.
/// `residual`: of x's shape and type, or undefined.
Fork fused_norm(const at::Tensor& x, const at::Tensor& residual, const NormLayer& layer,
                const NormSteps& steps);

}  // namespace lockstep::kernels
