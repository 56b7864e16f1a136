#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/state.h"

namespace lockstep::replica {

/// PyTorch's defaults (torch.amp.GradScaler).
struct LossScaleOptions {
  double initial = 65536;
  /// What the scale is multiplied by after so many steps in a row without an overflow, and after one with.
  double growth = 2;
  int64_t growth_interval = 2000;
  double backoff = 0.5;
};

/// Dynamic loss scaling: gradients of half precision are those of a loss that is so large that they do not
/// vanish. A step whose gradients overflow is left out, and the next one has a smaller scale. All of it lies
/// in the device's memory and is decided there, so nothing waits, and a step can be recorded.
///
/// In a step: backward from scaled(loss); the gradients are summed over the ranks; unscale() with all of
/// them; the optimizer, with SgdOptions::loss_scale; update(). Sgd::step does the last three. What of it is
/// on whom:
///
/// - An overflow on one rank is infinite in the sum, so all ranks that have all sums decide alike. Whoever
///   applies the optimizer bucket by bucket has to wait for the last bucket first: one overflow leaves out
///   all.
/// - Ranks that see only some of the sums (shards) agree: between unscale() and the optimizer overflow() is
///   all-reduced by comm::ReduceOp::kMax, in the same stream.
/// - Ranks that update alone have a scale each, and need not agree.
///
/// Not thread-safe: one thread's, in one stream.
class LossScale {
 public:
  explicit LossScale(at::Device device, const LossScaleOptions& options = {});

  /// The loss to go backward from; shaped like it.
  at::Tensor scaled(const at::Tensor& loss) const;

  /// Divides gradients by the scale where they lie, and notes in overflow() whether one of them is not
  /// finite.
  void unscale(const std::vector<at::Tensor>& gradients);

  /// One fp32 number on the device: 1 where unscale() has found what is not finite since the last update,
  /// else 0.
  const at::Tensor& overflow() const { return overflow_; }

  /// Ends the step: adapts the scale and forgets the overflow. After all that was to be left out with it.
  void update();

  /// Both wait for the device.
  double value() const;
  int64_t steps_left_out() const;

  /// "loss_scale.*"; what unscale() does depends on it.
  void save(State& state) const;
  void restore(const State& state);

 private:
  LossScaleOptions options_;
  at::Tensor scale_, inverse_, overflow_;
  /// Steps in a row without an overflow; in all with one.
  at::Tensor good_steps_, left_out_;
};

}  // namespace lockstep::replica
