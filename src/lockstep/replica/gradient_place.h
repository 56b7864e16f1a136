#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

namespace lockstep::replica {

/// Where the backward pass may leave the gradient of a parameter, instead of in memory of its own that then
/// has to be copied. A block that can write there asks for its parameter's place
/// (Parameters::gradient_place); a strategy that keeps gradients says where that is, and finds there what
/// needs no copy.
struct GradientPlace {
  /// Shaped as the parameter, fp32; undefined: nowhere, the gradient is autograd's as ever.
  at::Tensor tensor;
  /// The gradient is left there multiplied by this,
  double scale = 1;
  /// and added to what is there.
  bool add = false;

  /// This place, or memory that is the gradient's own.
  GradientPlace or_new(const at::Tensor& parameter) const {
    if (tensor.defined()) return *this;
    return {.tensor = at::empty_like(parameter)};
  }
};

}  // namespace lockstep::replica
