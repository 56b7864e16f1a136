#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/shapes.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

/// Whether winograd_conv() should compute this convolution of the blocked image `x`: suits_winograd(), fp32,
/// and a weight in channels last.
bool can_winograd(const ConvShape& conv, const at::Tensor& x, const at::Tensor& weight);

/// relu(x * weight + bias) as a blocked image; differentiable. `bias` may be undefined. `place`: the place
/// for the weight's gradient, or an empty one. `place` and `conv` must outlive the backward pass.
at::Tensor winograd_conv(const ConvShape& conv, bool relu, const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& bias, const replica::GradientPlace& place);

}  // namespace lockstep::kernels
