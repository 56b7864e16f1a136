#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"

namespace lockstep::kernels {

/// In training sets each value to zero with a probability, and divides the others by what is left of 1. A
/// sample's mask comes from (seed, layer, step, its index in the global batch) alone, so ranks draw for their
/// parts what one rank draws for the joint batch, on any device.
class Dropout {
 public:
  /// `name` tells this layer from the network's others.
  Dropout(std::string name, double probability);
  /// x: [batch, ...].
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  std::string name_;
  double probability_;
};

}  // namespace lockstep::kernels
