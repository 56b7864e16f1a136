#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"

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
/// running values. Two passes over a block of channels, the second one while the block is still in the cache;
/// in channels-last two passes over all of them. Sums are of differences from a value of the channel, in fp32
/// over short runs and in fp64 beyond; the number of threads does not change the bits. Keeps x and, with
/// ReLU, the result for the backward pass. `residual`: of x's shape and type, or undefined. `ranks`: as
/// Context::norm_ranks; the gradients of weight and bias are then means over the ranks already. Collective
/// with it, forward and backward.
Fork fused_norm(const at::Tensor& x, const at::Tensor& residual, const NormLayer& layer,
                const NormSteps& steps, const NormRanks* ranks = nullptr);

/// Batch normalization of a plain image in training with the statistics of all ranks, by LibTorch's
/// operations. Collective, forward and backward.
at::Tensor joint_norm(const at::Tensor& x, const NormLayer& layer, const NormRanks& ranks);

/// Whether gpu_norm() has a kernel for x: an image of fp32, bf16 or fp16 with at most 16,384 channels.
bool has_gpu_norm(const at::Tensor& x);

/// fused_norm() for GPUs: [relu](norm(x) [+ residual]) of a plain image, computed in fp32 and rounded once.
/// Keeps x and a bit per value for the backward pass. `residual`: of x's shape and type, or undefined. Images
/// that are not channels_last are copied to that format. `kernels`: the plugin's, or for tests others over
/// x's memory. Its launches go into the current stream of x's device, with a workspace for each stream that
/// lives as long as the process and is made by the first step: before a step is recorded in a CUDA graph.
Fork gpu_norm(const at::Tensor& x, const at::Tensor& residual, const NormLayer& layer, const NormSteps& steps,
              const cuda_kernels::KernelsPluginV1& kernels);

}  // namespace lockstep::kernels
