#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

/// Batch normalisation over (batch, height, width) with momentum 0.1.
/// Registers `name`.weight (ones) and .bias (zeros), and the buffers .running_mean, .running_var and
/// .num_batches_tracked. Training normalises by the batch's own statistics and moves the running ones (the
/// variance by its unbiased estimate); otherwise the running ones are used.
class BatchNorm {
 public:
  BatchNorm(replica::Parameters& parameters, const std::string& name, int64_t channels, double epsilon);
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  double epsilon_;
  at::Tensor weight_;
  at::Tensor bias_;
  at::Tensor running_mean_;
  at::Tensor running_var_;
  at::Tensor num_batches_tracked_;
};

}  // namespace lockstep::kernels
