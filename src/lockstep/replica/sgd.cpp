#include "lockstep/replica/sgd.h"

#include <optional>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/base/error.h"

namespace lockstep::replica {

namespace {

/// `learning_rate`: a number, or a tensor with one.
template <typename Rate>
void fused_pass(std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& gradients,
                std::vector<at::Tensor>& momenta, const SgdOptions& options, const Rate& learning_rate,
                bool first_step) {
  const at::NoGradGuard no_grad;
  if (options.momentum == 0) momenta.clear();
  std::optional<at::Tensor> overflow;
  if (options.loss_scale) overflow = options.loss_scale->overflow();
  at::_fused_sgd_(parameters, gradients, momenta, options.weight_decay, options.momentum, learning_rate,
                  /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, first_step && !overflow,
                  /*grad_scale=*/{}, overflow);
}

}  // namespace

void SgdOptions::keep_rate_on(at::Device device) {
  rate_on_device = at::full({}, learning_rate, at::TensorOptions().dtype(at::kFloat).device(device));
}

void SgdOptions::set_learning_rate(double rate) {
  learning_rate = rate;
  if (rate_on_device.defined()) rate_on_device.fill_(rate);
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

void fused_momenta(std::vector<at::Tensor> parameters, std::vector<at::Tensor> gradients,
                   std::vector<at::Tensor> momenta, const SgdOptions& options, bool first_step) {
  // With a learning rate of 0 the pass leaves the parameters as they are.
  fused_pass(parameters, gradients, momenta, options, 0.0, first_step);
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
  for (size_t i = 0; i < parameters_.size(); ++i) {
    gradients_[i] = parameters_[i].grad();
    if (!gradients_[i].defined()) throw Error(fmt::format("parameter {} has no gradient", i));
  }
  if (options_.loss_scale) options_.loss_scale->unscale(gradients_);
  fused_sgd(parameters_, gradients_, momenta_, options_, first_step_);
  if (options_.loss_scale) options_.loss_scale->update();
  first_step_ = false;
}

int64_t Sgd::momentum_bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& momentum : momenta_) bytes += static_cast<int64_t>(momentum.nbytes());
  return bytes;
}

void Sgd::save(State& state) const {
  state.add("first_step", int64_t{first_step_});
  if (options_.loss_scale) options_.loss_scale->save(state);
  if (first_step_) return;
  for (size_t i = 0; i < momenta_.size(); ++i) state.add(fmt::format("momentum.{}", i), momenta_[i]);
}

void Sgd::restore(const State& state) {
  first_step_ = state.number("first_step") != 0;
  if (options_.loss_scale) options_.loss_scale->restore(state);
  if (first_step_) return;
  for (size_t i = 0; i < momenta_.size(); ++i) state.copy_to(fmt::format("momentum.{}", i), momenta_[i]);
}

void Sgd::clear_gradients() {
  for (at::Tensor& gradient : gradients_) gradient.reset();
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

}  // namespace lockstep::replica
