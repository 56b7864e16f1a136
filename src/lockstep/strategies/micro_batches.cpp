#include "lockstep/strategies/micro_batches.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mul.h>

namespace lockstep::strategies {

void MicroBatches::put(at::Tensor place, const at::Tensor& gradient, double scale) const {
  const at::NoGradGuard no_grad;
  if (passes_ > 1) {
    place.add_(gradient, scale);
  } else if (scale == 1) {
    place.copy_(gradient);
  } else {
    at::mul_out(place, gradient, at::Scalar(scale));
  }
}

}  // namespace lockstep::strategies
