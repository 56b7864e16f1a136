#pragma once

#include <vector>

#include "lockstep/kernels/layer_watch.h"

namespace lockstep::kernels {

/// Records the layers of one forward pass in the order in which they begin. Layers without a name are named
/// by their kind and a number: "max_pool2".
class LayerList : public LayerWatch {
 public:
  at::Tensor enter(const LayerForm& form, const at::Tensor& x) override;
  at::Tensor leave(const at::Tensor& y) override;

  const std::vector<Layer>& layers() const { return layers_; }

 private:
  std::vector<Layer> layers_;
  std::vector<size_t> open_;
};

/// Measures each layer of a network, forward and backward. It wraps the input and the output of a layer in
/// nodes of the autograd graph that record when the gradient passes:
///
///     forward:    x -> [stamp] -> layer -> [stamp] -> y
///     backward:  dx <- [stamp] <- layer <- [stamp] <- dy
///
/// A layer whose input needs no gradient has no stamp before it; its backward time ends with the next stamp
/// or the end of the pass. A layer inside another one (the shortcut of a residual block) is subtracted from
/// the outer one. Other work on the thread, such as a strategy's hooks, counts for the layer in which it
/// runs. Must outlive the graph.
class LayerClock : public LayerWatch {
 public:
  struct Times {
    double forward_s = 0;
    double backward_s = 0;
  };

  void begin_pass();
  /// Call after the backward pass.
  void end_pass();

  at::Tensor enter(const LayerForm& form, const at::Tensor& x) override;
  at::Tensor leave(const at::Tensor& y) override;

  /// The layers of the last pass. All passes have the same ones.
  const std::vector<Layer>& layers() const { return list_.layers(); }
  /// [pass][layer]
  const std::vector<std::vector<Times>>& passes() const { return passes_; }

  // For the nodes in the graph. "behind": at the output, where the backward pass of the layer begins.
  void gradient_arrived_behind(size_t layer);
  void gradient_arrived_before(size_t layer);

 private:
  /// Adds the time since the last stamp to the innermost open layer.
  void stamp();

  LayerList list_;
  std::vector<std::vector<Times>> passes_;
  /// Layers that have begun and not ended, innermost last.
  std::vector<size_t> open_;
  /// Time of the last stamp.
  double stamped_s_ = 0;
  bool backward_ = false;
};

}  // namespace lockstep::kernels
