#include <limits>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/flat_strategy.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

/// Local SGD (Stich 2019, "Local SGD Converges Fast and Communicates Little"): every rank applies the
/// optimizer to its own gradients for `sync_every` steps, and then the parameters are averaged. With an outer
/// step it is DiLoCo (Douillard et al. 2023, "DiLoCo: Distributed Low-Communication Training of Language
/// Models"), with SGD as the inner optimizer: the mean move of the ranks since the last exchange takes the
/// place of a gradient,
///
///     d = anchor - mean(parameters)
///     m = outer_momentum * m + d
///     anchor -= outer_lr * (d + outer_momentum * m)       parameters = anchor
///
/// which is the average for outer_lr 1 and no momentum, where neither anchor nor m is kept.
///
/// Sends one all-reduce of P bytes (P: the parameters in fp32) in every `sync_every`-th step, and nothing in
/// the others. Nothing overlaps it. Each rank keeps its momenta, and its batch-norm statistics; with a loss
/// scale, each rank skips its own overflows. Parameters are broadcast from rank 0 at the start.
///
/// Within a period the replicas differ. finish() puts their mean, the same on all ranks, in their place until
/// the next step continues from each rank's own.
class LocalSgd final : public FlatStrategy {
 public:
  explicit LocalSgd(const StrategyContext& context)
      : FlatStrategy(context, reverse_order(context.parameters.trainable().size())),
        filler_(context.parameters, memory_, 1.0, /*overlap=*/false, [](size_t) {}),
        period_(context.options.sync_every),
        outer_{.learning_rate = context.options.outer_lr,
               .momentum = context.options.outer_momentum,
               .weight_decay = 0,
               .nesterov = context.options.outer_momentum > 0} {
    broadcast_values();
    filler_.set_plan(plan_buckets(memory_, std::numeric_limits<int64_t>::max()));
    if (outer_.learning_rate == 1 && outer_.momentum == 0) return;
    anchor_ = values().clone();
    if (outer_.momentum > 0) outer_momenta_ = at::zeros_like(anchor_);
  }

  void begin_step() override {
    if (own_.defined()) values().copy_(own_);
    own_.reset();
    filler_.begin_step();
  }

  void before_backward(bool last) override { filler_.begin_backward(last); }

  void combine() override {
    filler_.finish();
    {
      const ActivityScope applying(activities_, Activity::kApplying);
      optimizer_.prepare({memory_.gradients(everything())});
      memory_.apply(everything(), optimizer_, steps_ == 0);
      optimizer_.end_step();
    }
    if (++steps_ % period_ == 0) exchange();
  }

  void apply() override {}

  void finish() override {
    if (steps_ % period_ == 0 || own_.defined()) return;
    own_ = values().clone();
    average(values());
  }

  void save(replica::State& state) override {
    FlatStrategy::save(state);
    if (own_.defined()) state.add("own_values", own_);
    if (anchor_.defined()) state.add("anchor", anchor_);
    if (outer_momenta_.defined()) state.add("outer_momenta", outer_momenta_);
  }

  void restore(const replica::State& state) override {
    FlatStrategy::restore(state);
    if (steps_ % period_ != 0) state.copy_to("own_values", own_ = at::empty_like(values()));
    if (anchor_.defined()) state.copy_to("anchor", anchor_);
    if (outer_momenta_.defined()) state.copy_to("outer_momenta", outer_momenta_);
  }

  int64_t momentum_bytes() const override {
    return memory_.momentum_bytes() + (outer_momenta_.defined() ? bytes() : 0);
  }
  int64_t buffer_bytes() const override { return anchor_.defined() ? bytes() : 0; }

  std::vector<Measured> measured() const override {
    return {{"payload_bytes", static_cast<double>(exchanges_ * bytes())}};
  }

 private:
  at::Tensor values() const { return memory_.values(everything()); }
  int64_t bytes() const { return static_cast<int64_t>(values().nbytes()); }

  void average(const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    tensor.div_(group_.size());
    wait_for(*group_.all_reduce(buffer_of(tensor), comm::ReduceOp::kSum), tensor);
  }

  void exchange() {
    ++exchanges_;
    if (!anchor_.defined()) return average(values());
    const at::NoGradGuard no_grad;
    // The gradients of this step are used up, so their memory takes the moves.
    at::Tensor moves = memory_.gradients(everything());
    at::sub_out(moves, anchor_, values());
    average(moves);
    const ActivityScope applying(activities_, Activity::kApplying);
    replica::fused_sgd({anchor_}, {moves}, {outer_momenta_}, outer_, steps_ == period_);
    values().copy_(anchor_);
  }

  BucketFiller filler_;
  int64_t period_;
  /// The optimizer of the outer step, with the parameters after the last one and its momenta; undefined where
  /// there is none.
  replica::SgdOptions outer_;
  at::Tensor anchor_, outer_momenta_;
  /// This rank's values while finish() shows their mean.
  at::Tensor own_;
  int64_t exchanges_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> create_local_sgd(const StrategyContext& context) {
  return std::make_unique<LocalSgd>(context);
}

}  // namespace lockstep::strategies
