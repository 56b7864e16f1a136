#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/kernels/fused_norm.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

/// What Context::batch_counters was given in a forward pass.
void count_batch(const std::vector<at::Tensor>& counters);

/// What follows a normalisation, in this order.
struct NormTail {
  /// Gives a tensor of the output's shape, which is not changed, to be added. It is called before a fused
  /// normalisation, which needs it, and otherwise after it.
  std::function<at::Tensor()> residual;
  NormSteps steps;
};

/// Batch normalisation over (batch, height, width) with momentum 0.1.
/// Registers `name`.weight (ones) and .bias (zeros), and the buffers .running_mean, .running_var and
/// .num_batches_tracked. Training normalises by the batch's own statistics and moves the running ones (the
/// variance by its unbiased estimate); otherwise the running ones are used.
class BatchNorm {
 public:
  BatchNorm(replica::Parameters& parameters, const std::string& name, int64_t channels, double epsilon);
  Fork operator()(const at::Tensor& x, const NormTail& tail, const Context& context) const;

 private:
  /// All fp32, [channels].
  NormLayer layer_;
  at::Tensor num_batches_tracked_;
};

}  // namespace lockstep::kernels
