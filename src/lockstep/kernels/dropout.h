#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"

namespace lockstep::kernels {

/// In training, sets each value to zero with a probability p and divides the others by 1 - p. A sample's mask
/// depends on (seed, layer, step, index of the sample in the global batch) alone, so the ranks draw the same
/// masks for their parts as one rank for the joint batch, on any device.
class Dropout {
 public:
  /// `name` distinguishes this layer from the network's other ones.
  Dropout(std::string name, double probability);
  /// x: [batch, ...].
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  std::string name_;
  double probability_;
};

/// A mask for dropout with the shape, type and device of x: each value is 0 with `probability` and
/// 1 / (1 - probability) otherwise. Whether value i of a sample is 0 depends on (stream, step, the sample's
/// index in the global batch, i) alone: they are the counter of a generator (splitmix64) without other state,
/// so any part of any mask can be drawn by itself and is the same on every device. x: [batch, ...].
at::Tensor counter_mask(const at::Tensor& x, double probability, uint64_t stream, const Context& context);

/// The same mask, computed by LibTorch's operations on any device. Never copies from the host, and can be
/// recorded into a CUDA graph if Context::step_on_device is set. Takes about 30 launches and 16 bytes of
/// temporary memory per value.
at::Tensor counter_mask_by_operations(const at::Tensor& x, double probability, uint64_t stream,
                                      const Context& context);

}  // namespace lockstep::kernels
