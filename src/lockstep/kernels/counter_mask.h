#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"

namespace lockstep::kernels {

/// A mask for dropout: each value is 0 with `probability` and 1 / (1 - probability) otherwise, on the device
/// and of the type of x. Whether value i of a sample is 0 depends on (stream, step, the sample's number in
/// the global batch, i) alone: they are the counter of a generator (splitmix64) that has no other state, so
/// that any part of any mask is drawn by itself, the same on every device. x: [batch, ...].
at::Tensor counter_mask(const at::Tensor& x, double probability, uint64_t stream, const Context& context);

/// The same by operations of LibTorch, without a copy from the host, and fit to be recorded into a CUDA graph
/// where Context::step_on_device is given. Some 30 launches, with 16 bytes of memory per value meanwhile.
at::Tensor counter_mask_by_operations(const at::Tensor& x, double probability, uint64_t stream,
                                      const Context& context);

}  // namespace lockstep::kernels
