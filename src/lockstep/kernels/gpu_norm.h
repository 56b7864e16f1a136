#pragma once

#include "lockstep/kernels/fused_norm.h"

namespace lockstep::cuda_kernels {
struct KernelsPluginV1;
}

namespace lockstep::kernels {

/// Whether gpu_norm() has a kernel for x: an image of fp32, bf16 or fp16.
bool has_gpu_norm(const at::Tensor& x);

/// fused_norm() for GPUs: [relu](norm(x) [+ residual]) of a plain image, computed in fp32 and rounded once.
/// Keeps x and a bit per value for the backward pass. `residual`: of x's shape and type, or undefined. Images
/// that are not channels_last are copied to that format. `kernels`: the plugin's, or for tests others over
/// x's memory. Its launches go into the current stream of x's device, with a workspace for each stream that
/// lives as long as the process and is made by the first step: before a step is recorded in a CUDA graph.
Fork gpu_norm(const at::Tensor& x, const at::Tensor& residual, const NormLayer& layer, const NormSteps& steps,
              const cuda_kernels::KernelsPluginV1& kernels);

}  // namespace lockstep::kernels
