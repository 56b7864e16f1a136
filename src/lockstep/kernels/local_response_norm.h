#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"

namespace lockstep::kernels {

/// Krizhevsky et al. 2012, section 3.3: x / (2 + 1e-4 * s)^0.75, where s is the sum of squares over the
/// channel and up to two neighbors on either side. torch.nn.LocalResponseNorm averages instead of summing, so
/// its equivalent has size 5, alpha 5e-4, beta 0.75 and k 2.
class LocalResponseNorm {
 public:
  /// x: [batch, channels, height, width].
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;
};

}  // namespace lockstep::kernels
