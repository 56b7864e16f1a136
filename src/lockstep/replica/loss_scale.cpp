#include "lockstep/replica/loss_scale.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/zeros.h>

namespace lockstep::replica {

LossScale::LossScale(at::Device device, const LossScaleOptions& options) : options_(options) {
  const at::TensorOptions on_device = at::TensorOptions().device(device);
  scale_ = at::full({}, options_.initial, on_device.dtype(at::kFloat));
  inverse_ = at::reciprocal(scale_);
  overflow_ = at::zeros({}, on_device.dtype(at::kFloat));
  good_steps_ = at::zeros({}, on_device.dtype(at::kInt));
}

at::Tensor LossScale::scaled(const at::Tensor& loss) const {
  return loss.mul(scale_);
}

void LossScale::unscale(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, overflow_, inverse_);
}

void LossScale::update() {
  const at::NoGradGuard no_grad;
  // Decide on the device; the host does not know of an overflow.
  at::_amp_update_scale_(scale_, good_steps_, overflow_, options_.growth, options_.backoff,
                         options_.growth_interval);
  at::reciprocal_out(inverse_, scale_);
  overflow_.zero_();
}

void LossScale::save(State& state) const {
  state.add("loss_scale.scale", scale_);
  state.add("loss_scale.good_steps", good_steps_);
}

void LossScale::restore(const State& state) {
  const at::NoGradGuard no_grad;
  state.copy_to("loss_scale.scale", scale_);
  state.copy_to("loss_scale.good_steps", good_steps_);
  at::reciprocal_out(inverse_, scale_);
}

}  // namespace lockstep::replica
