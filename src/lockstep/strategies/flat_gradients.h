#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/flat_memory.h"

namespace lockstep::strategies {

/// When gradients are copied to flat memory.
enum class Copying {
  /// Each one when it is ready. On the CPU, some blocks write theirs there themselves
  /// (replica::GradientPlace).
  kEach,
  /// All that are ready, in FlatGradients::fill_places(): one launch for all of a type, one more if they are
  /// scaled, because on a GPU a launch takes longer than the copy of a small tensor. Gradients of narrow
  /// copies are widened on the way.
  kTogether
};

/// kTogether on a GPU.
Copying copying_for(const replica::FlatMemory& memory);

/// Moves gradients from autograd to flat memory during the backward pass, each multiplied by a scale, and
/// reports each one that is final. Sums gradients over the micro-batches of a step. Used by one thread at a
/// time: the training thread, and autograd's during a backward pass.
class FlatGradients {
 public:
  /// Called during the last backward pass of a step. `index`: the parameter's index.
  using OnFinal = std::function<void(size_t index)>;

  FlatGradients(replica::Parameters& parameters, replica::FlatMemory& memory, double scale, Copying copying,
                OnFinal on_final);
  ~FlatGradients();
  FlatGradients(const FlatGradients&) = delete;
  FlatGradients& operator=(const FlatGradients&) = delete;

  void begin_step();
  /// See Strategy::before_backward(). Without a call, a step has one backward pass.
  void begin_backward(bool last);

  /// Copies the gradients reported so far to flat memory. With kEach they are there already.
  void fill_places();

 private:
  using OnGradient = std::function<void(size_t index, const at::Tensor& gradient)>;
  class Hook;

  void gradient_ready(size_t index, const at::Tensor& gradient);
  void assign_places();

  replica::Parameters& parameters_;
  replica::FlatMemory& memory_;
  const Copying copying_;
  /// Parameters whose gradients are written by their blocks.
  std::vector<size_t> placeable_;
  /// Parameters whose gradients come in the type of their narrow copies.
  std::vector<size_t> narrow_;
  double scale_;
  OnFinal on_final_;
  int passes_ = 0;
  bool last_ = true;
  /// Gradients of this backward pass that are not copied yet, with their parameters.
  std::vector<std::pair<size_t, at::Tensor>> waiting_;
  /// Parameters keep their hooks for life; without this, a hook leaves the gradient to autograd.
  std::shared_ptr<OnGradient> on_gradient_;
};

}  // namespace lockstep::strategies
