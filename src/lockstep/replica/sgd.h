#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/loss_scale.h"
#include "lockstep/replica/memory_use.h"
#include "lockstep/replica/state.h"

namespace lockstep::replica {

/// The settings of the optimizer. Strategies pass them on as a whole; only the functions in sgd.cpp know how
/// momentum and weight decay are used.
struct SgdOptions {
  /// 0: the update is skipped altogether, including the momenta. A step then consists of computation and
  /// communication only.
  double learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool nesterov = false;
  /// Largest 2-norm of all gradients of a step; prepare() scales larger ones down to it. 0: any norm.
  double clip_norm = 0;
  /// If defined, updates read the rate from this tensor, one fp32 number on the parameters' device, so that a
  /// recorded step follows later changes of the rate. Shared by copies.
  at::Tensor rate_on_device = {};
  /// If defined, updates divide gradients by this, one fp32 number on the parameters' device, in memory too:
  /// gradients are then sums over so many ranks, and need no pass of their own to become means. Shared by
  /// copies.
  at::Tensor divisor_on_device = {};
  /// If not null, a step in which the loss scale found an overflow leaves parameters and momenta unchanged.
  /// This is decided on the device; the host does not wait for it. Shared by copies.
  std::shared_ptr<LossScale> loss_scale = nullptr;

  /// The options of a row: its members of the same names. New options are added here and nowhere else.
  template <typename Row>
  static SgdOptions of(const Row& row) {
    return {.learning_rate = row.learning_rate,
            .momentum = row.momentum,
            .weight_decay = row.weight_decay,
            .nesterov = row.nesterov,
            .clip_norm = row.grad_clip};
  }

  /// Makes steps that are recorded from now on follow set_learning_rate(). For GPUs.
  void keep_rate_on(at::Device device);
  /// Takes effect with the next update; never waits for a GPU. A rate of 0 does not remove an update that was
  /// recorded, it makes it an update by 0.
  void set_learning_rate(double rate);

  /// Declares gradients to be sums of so many ranks'. For GPUs, where a pass costs more than a division.
  void divide_gradients_by(int64_t count, at::Device device);

  /// Combines one number on the device over all ranks, in place and in the calling thread's stream.
  using Agree = std::function<void(const at::Tensor& number, bool as_maximum)>;

  /// Whether prepare() has something to do, so that the first update must wait for the last gradient.
  bool prepares_gradients() const { return loss_scale != nullptr || clip_norm > 0; }
  /// Before the step's first update, with all combined gradients that this rank has: divides them by the loss
  /// scale, looks for overflows, and clips them as torch.nn.utils.clip_grad_norm_ does: multiplies them by
  /// min(1, clip_norm / (norm + 1e-6)), with the norm of their means over the ranks. `agree`: for ranks that
  /// have a share each, which may be empty. Collective with it.
  void prepare(const std::vector<at::Tensor>& gradients, const Agree& agree = {}) const;
  /// After the step's last update: adapts the loss scale.
  void end_step() const;
  void save_scale(State& state) const;
  void restore_scale(const State& state) const;
};

/// Updates parameters in one fused pass over lists of tensors of the same length, all on one device, by the
/// rule of Sgd. For owners of gradients and momenta in other memory than an Sgd's. `first_step`: momenta are
/// written, not read; with a loss scale they are read and must be zero, because the first step may be
/// skipped.
void fused_sgd(std::vector<at::Tensor> parameters, std::vector<at::Tensor> gradients,
               std::vector<at::Tensor> momenta, const SgdOptions& options, bool first_step);

/// Stochastic gradient descent with momentum and weight decay as defined by torch.optim.SGD (dampening 0):
///
///     g += weight_decay * p
///     m = momentum * m + g        (m = g in the first step)
///     d = nesterov ? g + momentum * m : m
///     p -= learning_rate * d
///
/// One fused pass over all parameters. With a loss scale, gradients are those of the scaled loss, and must be
/// the same on all ranks whose parameters are to stay equal. Not thread-safe.
class Sgd {
 public:
  Sgd(std::vector<at::Tensor> parameters, const SgdOptions& options);

  /// Applies every parameter's gradient once. Throws Error with the index of a parameter that has no
  /// gradient.
  void step();

  /// step() in two halves, for ranks that exchange directions instead of gradients: the first updates the
  /// momenta and overwrites each gradient by `share` times the direction d of the update, the second takes
  /// what the gradients then hold for d.
  void make_directions(double share);
  void follow_directions();

  void set_learning_rate(double rate) { options_.set_learning_rate(rate); }

  /// Drops the gradients, so that the next backward pass writes them instead of adding to them.
  void clear_gradients();

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  int64_t momentum_bytes() const { return storage_bytes(momenta_); }

  /// Everything that step() depends on, except the parameters.
  void save(State& state) const;
  void restore(const State& state);

 private:
  void collect_gradients();

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> momenta_;
  std::vector<at::Tensor> gradients_;
  SgdOptions options_;
  bool first_step_ = true;
};

}  // namespace lockstep::replica
