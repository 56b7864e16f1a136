#pragma once

#include <utility>
#include <vector>

#include "lockstep/strategies/bucket_filler.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/strategies/tensor_buffer.h"

// The parts that strategies with flat memory (replica::FlatMemory) have in common.

namespace lockstep::strategies {

/// A replica in flat memory, with its optimizer and the number of steps that it has taken.
class FlatStrategy : public Strategy {
 public:
  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

  void save(replica::State& state) override {
    state.add("steps", steps_);
    optimizer_.save_scale(state);
    memory_.save(state);
  }

  void restore(const replica::State& state) override {
    steps_ = state.number("steps");
    optimizer_.restore_scale(state);
    memory_.restore(state);
  }

  int64_t momentum_bytes() const override { return memory_.momentum_bytes(); }

 protected:
  FlatStrategy(const StrategyContext& context, std::vector<size_t> order, int64_t multiple_of = 1)
      : optimizer_(context.optimizer),
        group_(*context.communicator),
        activities_(context.activities),
        memory_(context.parameters, std::move(order), multiple_of) {}

  /// The range of all parameters, without the padding.
  replica::Range everything() const { return {0, memory_.count()}; }
  /// FlatMemory::apply(), told to the listener.
  void apply_to(replica::Range range, bool first_step) {
    const Doing applying(activities_, Activity::kApplying);
    memory_.apply(range, optimizer_, first_step);
  }
  void broadcast_values() { broadcast_from_rank_0(group_, memory_.values(everything())); }

  replica::SgdOptions optimizer_;
  comm::Communicator& group_;
  ActivityListener* activities_;
  replica::FlatMemory memory_;
  int64_t steps_ = 0;
};

/// One that sends its gradients, divided by the number of ranks, in buckets: during backward, or after it
/// with `overlap` off. combine() applies the optimizer bucket by bucket.
class BucketStrategy : public FlatStrategy {
 public:
  void begin_step() override {
    filler_.begin_step();
    works_.clear();
  }
  void before_backward(bool last) override { filler_.begin_backward(last); }
  void apply() override {}

 protected:
  BucketStrategy(const StrategyContext& context, std::vector<size_t> order, int64_t multiple_of = 1)
      : FlatStrategy(context, std::move(order), multiple_of),
        filler_(context.parameters, memory_, 1.0 / group_.size(), context.options.overlap,
                [this](size_t bucket) { works_.push_back(send(filler_.buckets()[bucket])); }) {}

  /// Starts the collective of a bucket whose gradients are final. Buckets come in the order of the plan.
  virtual comm::WorkPtr send(const Bucket& bucket) = 0;

  BucketFiller filler_;
  /// The collectives of this step, in the order of the buckets. A strategy that sends over communicators of
  /// its own must clear this before it destroys them.
  std::vector<comm::WorkPtr> works_;
};

}  // namespace lockstep::strategies
