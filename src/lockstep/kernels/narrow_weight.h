#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"

namespace lockstep::kernels {

/// What a block is to compute with: `copy`, a narrower one of `weight`, where this pass has one, else
/// `weight` itself. The gradient is the weight's either way, as if it had been narrowed here.
at::Tensor narrow_weight(const at::Tensor& weight, const at::Tensor& copy, const Context& context);

}  // namespace lockstep::kernels
