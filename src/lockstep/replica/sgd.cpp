#include "lockstep/replica/sgd.h"

#include <optional>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/base/error.h"

namespace lockstep::replica {
namespace {

/// The update rule, as LibTorch's fused kernel. `learning_rate`: a number, or a tensor with one.
template <typename Rate>
void fused_pass(std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& gradients,
                std::vector<at::Tensor>& momenta, const SgdOptions& options, const Rate& learning_rate,
                bool first_step) {
  const at::NoGradGuard no_grad;
  if (options.momentum == 0) momenta.clear();
  // The kernel leaves everything unchanged if this is 1.
  std::optional<at::Tensor> overflow, divisor;
  if (options.loss_scale) overflow = options.loss_scale->overflow();
  if (options.divisor_on_device.defined()) divisor = options.divisor_on_device;
  // is_first_step makes the kernel write the momenta instead of reading them. The host does not know whether
  // a first step with a loss scale is skipped, so momenta are read then, and begin as zeros.
  at::_fused_sgd_(parameters, gradients, momenta, options.weight_decay, options.momentum, learning_rate,
                  /*dampening=*/0, options.nesterov, /*maximize=*/false, first_step && !overflow,
                  /*grad_scale=*/divisor, overflow);
}

}  // namespace

void SgdOptions::keep_rate_on(at::Device device) {
  rate_on_device = at::full({}, learning_rate, at::TensorOptions().dtype(at::kFloat).device(device));
}

void SgdOptions::set_learning_rate(double rate) {
  learning_rate = rate;
  if (rate_on_device.defined()) rate_on_device.fill_(rate);
}

void SgdOptions::divide_gradients_by(int64_t count, at::Device device) {
  divisor_on_device = at::full({}, count, at::TensorOptions().dtype(at::kFloat).device(device));
}

void SgdOptions::prepare(const std::vector<at::Tensor>& gradients, const Agree& agree) const {
  const at::NoGradGuard no_grad;
  if (loss_scale) {
    loss_scale->unscale(gradients);
    if (agree) agree(loss_scale->overflow(), /*as_maximum=*/true);
  }
  if (clip_norm == 0) return;
  // In fp64, so that ranks with shares and one with all gradients agree on the norm.
  at::Tensor square = at::zeros({}, gradients.front().options().dtype(at::kDouble));
  for (const at::Tensor& norm : at::_foreach_norm(gradients, 2, at::kDouble)) square.add_(norm.square());
  if (agree) agree(square, /*as_maximum=*/false);
  at::Tensor norm = square.sqrt();
  if (divisor_on_device.defined()) norm.div_(divisor_on_device);
  const at::Tensor factor = norm.add_(1e-6).reciprocal_().mul_(clip_norm).clamp_max_(1);
  for (const at::Tensor& gradient : gradients) gradient.mul_(factor);
}

void SgdOptions::end_step() const {
  if (loss_scale) loss_scale->update();
}

void SgdOptions::save_scale(State& state) const {
  if (loss_scale) loss_scale->save(state);
}

void SgdOptions::restore_scale(const State& state) const {
  if (loss_scale) loss_scale->restore(state);
}

void fused_sgd(std::vector<at::Tensor> parameters, std::vector<at::Tensor> gradients,
               std::vector<at::Tensor> momenta, const SgdOptions& options, bool first_step) {
  if (options.learning_rate == 0) return;
  if (options.rate_on_device.defined()) {
    fused_pass(parameters, gradients, momenta, options, options.rate_on_device, first_step);
  } else {
    fused_pass(parameters, gradients, momenta, options, options.learning_rate, first_step);
  }
}

Sgd::Sgd(std::vector<at::Tensor> parameters, const SgdOptions& options)
    : parameters_(std::move(parameters)), gradients_(parameters_.size()), options_(options) {
  const at::NoGradGuard no_grad;
  if (options_.momentum != 0) {
    for (const at::Tensor& parameter : parameters_) momenta_.push_back(at::zeros_like(parameter));
  }
}

void Sgd::step() {
  const at::NoGradGuard no_grad;
  collect_gradients();
  options_.prepare(gradients_);
  fused_sgd(parameters_, gradients_, momenta_, options_, first_step_);
  options_.end_step();
  first_step_ = false;
}

void Sgd::make_directions(double share) {
  const at::NoGradGuard no_grad;
  collect_gradients();
  const at::Scalar factor(share);
  if (options_.momentum == 0 || options_.learning_rate == 0) {
    for (size_t i = 0; i < gradients_.size(); ++i)
      gradients_[i].add_(parameters_[i], options_.weight_decay).mul_(factor);
    return;
  }
  // With a learning rate of 0 the pass updates the momenta only.
  fused_pass(parameters_, gradients_, momenta_, options_, 0.0, first_step_);
  first_step_ = false;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    at::Tensor& direction = gradients_[i];
    if (options_.nesterov) {
      direction.add_(parameters_[i], options_.weight_decay).add_(momenta_[i], options_.momentum).mul_(factor);
    } else {
      at::mul_out(direction, momenta_[i], factor);
    }
  }
}

void Sgd::follow_directions() {
  if (options_.learning_rate == 0) return;
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : parameters_) parameter.add_(parameter.grad(), -options_.learning_rate);
}

void Sgd::collect_gradients() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    gradients_[i] = parameters_[i].grad();
    if (!gradients_[i].defined()) throw Error(fmt::format("parameter {} has no gradient", i));
  }
}

void Sgd::save(State& state) const {
  state.add("first_step", int64_t{first_step_});
  options_.save_scale(state);
  if (first_step_) return;
  for (size_t i = 0; i < momenta_.size(); ++i) state.add(fmt::format("momentum.{}", i), momenta_[i]);
}

void Sgd::restore(const State& state) {
  first_step_ = state.number("first_step") != 0;
  options_.restore_scale(state);
  if (first_step_) return;
  for (size_t i = 0; i < momenta_.size(); ++i) state.copy_to(fmt::format("momentum.{}", i), momenta_[i]);
}

void Sgd::clear_gradients() {
  for (at::Tensor& gradient : gradients_) gradient.reset();
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

}  // namespace lockstep::replica
