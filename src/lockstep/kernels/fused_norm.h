#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// The learned and the running values of a batch normalisation, fp32, [channels] each.
struct NormLayer {
  at::Tensor weight, bias, running_mean, running_variance;
  double epsilon = 1e-5;
  double momentum = 0.1;
};

/// An image that two paths go on from: the same values twice, so that what comes back along the two is added
/// up where it is used and not before.
struct Fork {
  at::Tensor path;
  /// `path` itself where nothing was forked.
  at::Tensor shortcut;
};

/// What a normalisation does beside normalising.
struct NormSteps {
  bool relu = false;
  /// Whether the result is one of two tensors.
  bool forks = false;
};

/// Batch normalisation in training of a blocked fp32 or bf16 image, plus `residual` where it is defined, then
/// ReLU where asked for: [relu](norm(x) [+ residual]), and the running values moved on. Two passes over a
/// block of channels, the second while it is still in the cache. Sums are of differences from a value of the
/// channel, in fp32 over short runs and in fp64 over those; bits do not depend on the number of threads. For
/// the backward pass it keeps x and, with ReLU, the result. `residual`: of x's shape and type.
Fork fused_norm(const at::Tensor& x, const at::Tensor& residual, const NormLayer& layer,
                const NormSteps& steps);

}  // namespace lockstep::kernels
