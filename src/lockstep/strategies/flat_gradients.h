#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "lockstep/replica/flat_memory.h"
#include "lockstep/strategies/gradient_hooks.h"

namespace lockstep::strategies {

/// When gradients are copied into flat memory.
enum class Copying {
  /// Each when it is ready; on the CPU blocks that can write theirs there themselves
  /// (replica::GradientPlace).
  kEach,
  /// All that are ready by then, when their places are to be looked at (FlatGradients::fill_places): a launch
  /// or two for all of them, because on a GPU a launch takes longer than the copy of a small tensor.
  kTogether
};

/// kTogether on a GPU.
Copying copying_for(const replica::FlatMemory& memory);

/// Takes gradients from autograd into flat memory while the backward pass goes on, each multiplied by a
/// scale, and tells of each that is final. Over the micro-batches of a step gradients are summed up. One
/// thread at a time uses it: who trains, and autograd's during a backward pass.
class FlatGradients {
 public:
  /// `index`: the parameter's; in the last backward pass of a step, from within it.
  using OnFinal = std::function<void(size_t index)>;

  FlatGradients(replica::Parameters& parameters, replica::FlatMemory& memory, double scale, Copying copying,
                OnFinal on_final);
  ~FlatGradients();
  FlatGradients(const FlatGradients&) = delete;
  FlatGradients& operator=(const FlatGradients&) = delete;

  void begin_step();
  /// As Strategy::before_backward. Without it a step has one backward pass.
  void begin_backward(bool last);

  /// The gradients that were told to be final are in flat memory from here on. With kEach they are anyway.
  void fill_places();

 private:
  void gradient_ready(size_t index, const at::Tensor& gradient);
  void assign_places();

  replica::Parameters& parameters_;
  replica::FlatMemory& memory_;
  const Copying copying_;
  /// Whose blocks write them.
  std::vector<size_t> placeable_;
  double scale_;
  OnFinal on_final_;
  int passes_ = 0;
  bool last_ = true;
  /// Gradients of this backward pass that are not in their places yet, by parameter.
  std::vector<std::pair<size_t, at::Tensor>> waiting_;
  GradientHooks hooks_;
};

}  // namespace lockstep::strategies
