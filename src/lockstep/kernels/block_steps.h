#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/replica/parameters.h"

// Steps that several blocks have in common.

namespace lockstep::kernels {

/// Overwrites x, which must not be needed by the backward pass of any other block.
at::Tensor relu_in_place(at::Tensor x, const Context& context);

/// The tensor that a block computes with: `copy`, a narrower copy of `weight`, if this pass uses copies and
/// there is one; `weight` itself otherwise. The gradient goes to `weight` either way, as if it were narrowed
/// here; that of a copy to `sink` instead, unless it is empty. The sink outlives the backward pass.
at::Tensor narrow_weight(const at::Tensor& weight, const at::Tensor& copy,
                         const replica::NarrowGradientSink& sink, const Context& context);

}  // namespace lockstep::kernels
