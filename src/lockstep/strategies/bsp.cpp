#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/exchange.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

/// The bulk synchronous rule of Theano-MPI (Ma et al. 2016, "Theano-MPI: a Theano-based Distributed Training
/// Framework"): after backward a local update, a barrier, and then an exchange of every tensor, one after the
/// other. Nothing overlaps.
///
/// Sends, in each step, one message per tensor (two for `exchange` asa32 and asa16), of P bytes in total for
/// an all-reduce in fp32, where P is the size of the parameters; see create_exchanger().
///
/// - `bsp_sync` cdd (CombinedMomenta): every rank updates its own momenta, their means over the ranks are
/// exchanged, and
///   parameters follow the means. A rank's momenta stay its own; because momenta are linear in the gradients,
///   the mean is what one momentum of the mean gradient would be. Theano-MPI itself uses the sum.
/// - `bsp_sync` avg (AveragedParameters): every rank applies the optimizer to its parameters, and these are
/// averaged.
///
/// On a GPU the host waits for the device before the barrier and after the exchange. Measures train_s (from
/// the beginning of a step to the barrier), synchronisation_s (the barrier) and communication_s (the
/// exchange). Parameters are broadcast from rank 0 at the start, batch-norm buffers never.
class Bsp : public Strategy {
 public:
  explicit Bsp(const StrategyContext& context)
      : group_(*context.communicator),
        control_(context.host_communicator()),
        accelerator_(context.accelerator),
        exchanger_(create_exchanger(context)) {
    for (const at::Tensor& tensor : context.parameters.tensors()) {
      broadcast_from_rank_0(group_, tensor.detach());
    }
  }

  void begin_step() override {
    begin_s_ = now_s();
    clear_gradients();
  }

  void combine() override {
    const at::NoGradGuard no_grad;
    update_locally();
    let_device_finish();
    const double trained_s = now_s();
    control_.barrier()->wait();
    const double together_s = now_s();
    for (const at::Tensor& tensor : exchanged()) exchanger_->sum(tensor);
    let_device_finish();
    train_s_ += trained_s - begin_s_;
    synchronisation_s_ += together_s - trained_s;
    communication_s_ += now_s() - together_s;
  }

  std::vector<at::Tensor> equal_on_all_ranks() const override { return exchanged(); }
  int64_t buffer_bytes() const override { return exchanger_->buffer_bytes(); }

  std::vector<Measured> measured() const override {
    return {{"train_s", train_s_},
            {"synchronisation_s", synchronisation_s_},
            {"communication_s", communication_s_}};
  }

 protected:
  virtual void clear_gradients() = 0;
  /// Updates this rank's replica and leaves its part of the mean in exchanged(): values divided by the number
  /// of ranks.
  virtual void update_locally() = 0;
  virtual std::vector<at::Tensor> exchanged() const = 0;

  double share() const { return 1.0 / group_.size(); }

 private:
  /// Waits for the device, because a rank may enter the barrier only after it has trained, and times are the
  /// host's.
  void let_device_finish() {
    if (accelerator_ != nullptr) accelerator_->wait(*accelerator_->mark());
  }

  comm::Communicator& group_;
  comm::Communicator& control_;
  replica::Accelerator* accelerator_;
  std::unique_ptr<Exchanger> exchanger_;
  double begin_s_ = 0;
  double train_s_ = 0;
  double synchronisation_s_ = 0;
  double communication_s_ = 0;
};

class CombinedMomenta final : public Bsp {
 public:
  explicit CombinedMomenta(const StrategyContext& context)
      : Bsp(context), parameters_(context.parameters.tensors()), options_(context.optimizer) {
    const at::NoGradGuard no_grad;
    if (options_.momentum == 0) return;
    for (const at::Tensor& parameter : parameters_) momenta_.push_back(at::zeros_like(parameter));
  }

  void apply() override {
    if (options_.learning_rate == 0) return;
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : parameters_) {
      parameter.add_(parameter.grad(), -options_.learning_rate);
    }
  }

  void set_learning_rate(double rate) override { options_.set_learning_rate(rate); }

  void save(replica::State& state) override {
    state.add("first_step", int64_t{first_step_});
    for (size_t i = 0; i < momenta_.size(); ++i) state.add(fmt::format("momentum.{}", i), momenta_[i]);
  }

  void restore(const replica::State& state) override {
    first_step_ = state.number("first_step") != 0;
    for (size_t i = 0; i < momenta_.size(); ++i) state.copy_to(fmt::format("momentum.{}", i), momenta_[i]);
  }

  int64_t momentum_bytes() const override {
    int64_t bytes = 0;
    for (const at::Tensor& momentum : momenta_) bytes += static_cast<int64_t>(momentum.nbytes());
    return bytes;
  }

 private:
  void clear_gradients() override {
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }

  void update_locally() override {
    const std::vector<at::Tensor> gradients = exchanged();
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) throw Error(fmt::format("parameter {} has no gradient", i));
    }
    // The gradients are not needed any more, so their memory takes the directions, which are exchanged.
    replica::fused_directions(parameters_, gradients, momenta_, options_, first_step_, share());
    if (options_.learning_rate != 0) first_step_ = false;
  }

  std::vector<at::Tensor> exchanged() const override {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    return gradients;
  }

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> momenta_;
  replica::SgdOptions options_;
  bool first_step_ = true;
};

class AveragedParameters final : public Bsp {
 public:
  explicit AveragedParameters(const StrategyContext& context)
      : Bsp(context), optimizer_(context.parameters.tensors(), context.optimizer) {}

  // The local update comes before the exchange.
  void apply() override {}

  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

  void save(replica::State& state) override { optimizer_.save(state); }
  void restore(const replica::State& state) override { optimizer_.restore(state); }

  int64_t momentum_bytes() const override { return optimizer_.momentum_bytes(); }

 private:
  void clear_gradients() override { optimizer_.clear_gradients(); }

  void update_locally() override {
    optimizer_.step();
    for (const at::Tensor& parameter : optimizer_.parameters()) parameter.detach().mul_(share());
  }

  std::vector<at::Tensor> exchanged() const override {
    std::vector<at::Tensor> values;
    for (const at::Tensor& parameter : optimizer_.parameters()) values.push_back(parameter.detach());
    return values;
  }

  replica::Sgd optimizer_;
};

}  // namespace

std::unique_ptr<Strategy> create_bsp(const StrategyContext& context) {
  if (context.options.bsp_sync == BspSync::kAvg) return std::make_unique<AveragedParameters>(context);
  return std::make_unique<CombinedMomenta>(context);
}

}  // namespace lockstep::strategies
