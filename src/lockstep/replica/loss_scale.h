#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/state.h"

namespace lockstep::replica {

/// The defaults are those of torch.amp.GradScaler.
struct LossScaleOptions {
  double initial = 65536;
  /// The scale is multiplied by `growth` after `growth_interval` steps in a row without an overflow, and by
  /// `backoff` after a step with one.
  double growth = 2;
  int64_t growth_interval = 2000;
  double backoff = 0.5;
};

/// Dynamic loss scaling: the loss is multiplied by a scale so large that its gradients do not vanish in half
/// precision. A step whose gradients overflow is skipped, and the next one uses a smaller scale. All state is
/// in the device's memory and all decisions are made there, so nothing waits for the device, and a step can
/// be recorded.
///
/// Order of a step: backward from scaled(loss); gradients summed over the ranks; unscale() with all of them;
/// optimizer with SgdOptions::loss_scale; update(). Sgd::step() does the last three. Agreement of ranks:
///
///     have all sums   agree by themselves: an overflow on one rank is infinite in the sum. It skips all
///                     buckets, so an optimizer that goes by buckets must wait for the last one.
///     have shards     all-reduce overflow() by comm::ReduceOp::kMax between unscale() and the optimizer,
///                     in the same stream
///     update alone    have separate scales and need not agree
///
/// Not thread-safe: to be used by one thread, in one stream.
class LossScale {
 public:
  explicit LossScale(at::Device device, const LossScaleOptions& options = {});

  /// The loss multiplied by the scale, to call backward() on.
  at::Tensor scaled(const at::Tensor& loss) const;

  /// Divides gradients by the scale in place, and sets overflow() if one of them is not finite.
  void unscale(const std::vector<at::Tensor>& gradients);

  /// One fp32 number on the device: 1 if unscale() found a value that is not finite since the last update(),
  /// else 0.
  const at::Tensor& overflow() const { return overflow_; }

  /// Ends the step: adapts the scale and clears the overflow. Call after all updates that the overflow should
  /// skip.
  void update();

  /// Entries "loss_scale.*".
  void save(State& state) const;
  void restore(const State& state);

 private:
  LossScaleOptions options_;
  at::Tensor scale_, inverse_, overflow_;
  /// Steps in a row without an overflow.
  at::Tensor good_steps_;
};

}  // namespace lockstep::replica
