#pragma once

#include <functional>
#include <vector>

#include "lockstep/replica/flat_memory.h"
#include "lockstep/strategies/gradient_hooks.h"

namespace lockstep::strategies {

/// Takes gradients from autograd into flat memory while the backward pass goes on, each multiplied by a
/// scale, and tells of each that is final. Blocks that can are told to write them there themselves
/// (replica::GradientPlace); the others are copied. Over the micro-batches of a step gradients are summed up.
class FlatGradients {
 public:
  /// `index`: the parameter's; in the last backward pass of a step, from within it.
  using OnFinal = std::function<void(size_t index)>;

  FlatGradients(replica::Parameters& parameters, replica::FlatMemory& memory, double scale, OnFinal on_final);
  ~FlatGradients();
  FlatGradients(const FlatGradients&) = delete;
  FlatGradients& operator=(const FlatGradients&) = delete;

  void begin_step() { passes_ = 0; }
  /// As Strategy::before_backward. Without it a step has one backward pass.
  void begin_backward(bool last);

 private:
  void gradient_ready(size_t index, const at::Tensor& gradient);
  void assign_places();

  replica::Parameters& parameters_;
  replica::FlatMemory& memory_;
  const std::vector<size_t> placeable_;
  double scale_;
  OnFinal on_final_;
  int passes_ = 0;
  bool last_ = true;
  GradientHooks hooks_;
};

}  // namespace lockstep::strategies
