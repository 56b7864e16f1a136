#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"

namespace lockstep::models {

/// A network whose forward and backward passes are one program, with a loss of its own. Used by the thread
/// that trains the replica.
class WholeStep {
 public:
  virtual ~WholeStep() = default;

  /// Computes the loss of one micro-batch and its gradients. Each gradient goes to autograd the moment it is
  /// final, so that hooks of its parameter run while the backward pass goes on, and `.grad` is added to, as
  /// in Tensor::backward().
  ///
  /// `samples`: all inputs, then all targets. `scale`: factor of the loss in the backward pass, an fp32
  /// scalar on the device. `forward_done` is called between the two passes. Returns the mean loss without the
  /// factor, an fp32 scalar.
  virtual at::Tensor run(const std::vector<at::Tensor>& samples, const kernels::Context& context,
                         const at::Tensor& scale, const std::function<void()>& forward_done) = 0;
};

/// Seeds the generator of the process for a device, from which such programs draw, for one step of one rank.
/// Ranks that are threads share the CPU's.
void seed_step(const kernels::Context& context, at::Device device);

}  // namespace lockstep::models
