#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"

namespace lockstep::kernels {

/// A mask for dropout, computed on the device of x without a copy from the host, and fit to be recorded into
/// a CUDA graph where Context::step_on_device is given: each value is 0 with `probability` and 1 / (1 -
/// probability) otherwise. Whether value i of a sample is 0 depends on (stream, step, the sample's number in
/// the global batch, i) alone: they are the counter of a generator (splitmix64) that has no other state.
/// x: [batch, ...]. Some 30 launches of elementwise operations, with 16 bytes of memory per value meanwhile.
at::Tensor counter_mask(const at::Tensor& x, double probability, uint64_t stream, const Context& context);

}  // namespace lockstep::kernels
