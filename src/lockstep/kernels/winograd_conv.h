#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/conv_shape.h"
#include "lockstep/replica/gradient_place.h"

namespace lockstep::kernels {

/// Whether winograd_conv() is the way to compute this convolution of `x`, a blocked image: one that suits
/// (winograd.h), in fp32, of a weight in channels last.
bool can_winograd(const ConvShape& conv, const at::Tensor& x, const at::Tensor& weight);

/// relu(x * weight + bias), differentiable. What is returned is blocked. `bias`: may be undefined.
/// `place`: where the weight's gradient may be left. That and `conv` outlive the backward pass.
at::Tensor winograd_conv(const ConvShape& conv, bool relu, const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& bias, const replica::GradientPlace& place);

}  // namespace lockstep::kernels
