#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::strategies {

/// Where a step stands among the backward passes of its micro-batches, for strategies that take gradients
/// from autograd: those of the first pass are put into their places, those of later ones added there. Without
/// begin_backward there is one pass.
class MicroBatches {
 public:
  void begin_step() { passes_ = 0; }
  /// As Strategy::before_backward.
  void begin_backward(bool last) {
    ++passes_;
    last_ = last;
  }

  /// Whether gradients are final in this pass.
  bool last() const { return last_; }

  /// place = scale * gradient in the first pass, place += scale * gradient in later ones. Without autograd.
  void put(at::Tensor place, const at::Tensor& gradient, double scale) const;

 private:
  int passes_ = 0;
  bool last_ = true;
};

}  // namespace lockstep::strategies
