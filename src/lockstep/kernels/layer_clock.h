#pragma once

#include <vector>

#include "lockstep/kernels/layer_watch.h"

namespace lockstep::kernels {

/// Stamps when each layer of a network begins and ends, forward and backward. What it hands on are the same
/// values behind a node of the autograd graph that stamps when the gradient comes by; the backward pass of a
/// layer lies between the stamp behind it and the stamp before it, or the end of the pass where its input
/// needs no gradient. The time of a layer inside another (the shortcut of a residual block) is its own alone.
/// What else runs meanwhile on the thread, such as a strategy's hooks, counts where it runs. Outlives the
/// graph.
class LayerClock : public LayerWatch {
 public:
  struct Times {
    double forward_s = 0;
    double backward_s = 0;
  };

  void begin_pass();
  /// After the backward pass.
  void end_pass();

  at::Tensor enter(const LayerForm& form, const at::Tensor& x) override;
  at::Tensor leave(const at::Tensor& y) override;

  /// Of the last pass, which has the same ones as those before it.
  const std::vector<Layer>& layers() const { return list_.layers(); }
  /// [pass][layer]
  const std::vector<std::vector<Times>>& passes() const { return passes_; }

  // Called from the graph.
  void gradient_arrived_behind(size_t layer);
  void gradient_arrived_before(size_t layer);

 private:
  /// What has passed since the last stamp belongs to the innermost open layer.
  void stamp();

  LayerList list_;
  std::vector<std::vector<Times>> passes_;
  std::vector<size_t> open_;
  double stamped_s_ = 0;
  bool backward_ = false;
};

}  // namespace lockstep::kernels
