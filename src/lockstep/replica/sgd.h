#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/loss_scale.h"
#include "lockstep/replica/state.h"

namespace lockstep::replica {

struct SgdOptions {
  /// 0: the update is left out altogether, momenta too; what remains of a step is computation and
  /// communication.
  double learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  /// Where it is defined, the rate is read from there: one fp32 number on the parameters' device, so that a
  /// recorded step follows a rate that is set later. Copies share it.
  at::Tensor rate_on_device = {};
  /// Where there is one, a step in which it has found an overflow leaves parameters and momenta as they are.
  /// That is decided on the device: neither host nor record need know. Copies share it.
  std::shared_ptr<LossScale> loss_scale = nullptr;

  /// What is recorded from now on follows set_learning_rate. For GPUs.
  void keep_rate_on(at::Device device);
  /// From the next update on; never waits for a GPU. A rate of 0 leaves a recorded update in, with 0.
  void set_learning_rate(double rate);
};

/// One fused pass over lists of the same length: what Sgd does to its parameters, for whoever keeps gradients
/// and momenta elsewhere. All on one device. `first_step`: momenta are written, not read; with a loss scale
/// they are read, and have to be zero, since the first step may be left out.
void fused_sgd(std::vector<at::Tensor> parameters, std::vector<at::Tensor> gradients,
               std::vector<at::Tensor> momenta, const SgdOptions& options, bool first_step);

/// The part of it that updates the momenta, whatever the learning rate.
void fused_momenta(std::vector<at::Tensor> parameters, std::vector<at::Tensor> gradients,
                   std::vector<at::Tensor> momenta, const SgdOptions& options, bool first_step);

/// Stochastic gradient descent with momentum and weight decay, as torch.optim.SGD defines it (dampening 0, no
/// Nesterov): g += decay * p; m = momentum * m + g (m = g in the first step); p -= rate * m. One fused pass
/// over the list of parameters. With a loss scale the gradients are those of the scaled loss, the same on all
/// ranks that are to stay equal.
class Sgd {
 public:
  Sgd(std::vector<at::Tensor> parameters, const SgdOptions& options);

  /// Applies every parameter's gradient once. Throws Error naming the index of a parameter without a
  /// gradient.
  void step();

  void set_learning_rate(double rate) { options_.set_learning_rate(rate); }

  /// Drops the gradients, so that the next backward pass writes instead of adding.
  void clear_gradients();

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  int64_t momentum_bytes() const;

  /// What step() goes on from, beside the parameters.
  void save(State& state) const;
  void restore(const State& state);

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> momenta_;
  std::vector<at::Tensor> gradients_;
  SgdOptions options_;
  bool first_step_ = true;
};

}  // namespace lockstep::replica
