#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <ATen/ops/from_blob.h>

#include "lockstep/strategies/buckets.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/strategies/tensor_buffer.h"

// The parts that strategies with flat memory (replica::FlatMemory) have in common.

namespace lockstep::strategies {

/// The communicator's own memory for gradients, where it has some.
inline replica::FlatMemory::GradientMemory memory_of(comm::Communicator& group,
                                                     const StrategyContext& context) {
  const at::Device device =
      context.accelerator == nullptr ? at::Device(at::kCPU) : context.accelerator->device();
  return [&group, device](int64_t count) {
    const std::shared_ptr<void> memory = group.allocate(static_cast<size_t>(count) * sizeof(float));
    if (!memory) return at::Tensor();
    return at::for_blob(memory.get(), {count})
        .deleter([memory](void*) {})
        .options(at::TensorOptions().dtype(at::kFloat).device(device))
        .target_device(device)
        .make_tensor();
  };
}

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
  int64_t foreign_bytes() const override { return memory_.foreign_bytes(); }

 protected:
  FlatStrategy(const StrategyContext& context, std::vector<size_t> order, int64_t multiple_of = 1,
               replica::Units units = {})
      : optimizer_(context.optimizer),
        group_(*context.communicator),
        activities_(context.activities),
        memory_(context.parameters, std::move(order), multiple_of, memory_of(group_, context),
                std::move(units)) {}

  /// The range of all parameters, without the padding.
  replica::Range everything() const { return {0, memory_.count()}; }
  /// FlatMemory::apply(), with a notice to the listener.
  void apply_to(replica::Range range, bool first_step) {
    const ActivityScope applying(activities_, Activity::kApplying);
    memory_.apply(range, optimizer_, first_step);
  }
  void broadcast_values() { broadcast_from_rank_0(group_, memory_.values(everything())); }

  replica::SgdOptions optimizer_;
  comm::Communicator& group_;
  ActivityListener* activities_;
  replica::FlatMemory memory_;
  int64_t steps_ = 0;
};

/// Whether the optimizer divides sums of gradients by the number of ranks as it reads them, instead of a pass
/// over each rank's own before they are sent: on a GPU, where gradients are copied without a scale. Not with
/// a 16-bit wire, in which sums overflow and lose digits earlier, nor where a host updates the variables.
inline bool divides_when_applied(const StrategyContext& context) {
  return context.accelerator != nullptr && !context.accelerator->device().is_cpu() &&
         context.communicator->size() > 1 && context.options.wire == Wire::kFp32 &&
         context.options.powersgd == 0 && context.options.parameter_device != ParameterDevice::kCpu;
}

/// One that sends its gradients in buckets: during backward, or after it with `overlap` off. They are divided
/// by the number of ranks before or after. combine() applies the optimizer bucket by bucket.
class BucketStrategy : public FlatStrategy {
 public:
  void begin_step() override {
    filler_.begin_step();
    works_.clear();
  }
  void before_backward(bool last) override { filler_.begin_backward(last); }
  void apply() override {}

 protected:
  BucketStrategy(const StrategyContext& context, std::vector<size_t> order, int64_t multiple_of = 1,
                 replica::Units units = {})
      : FlatStrategy(context, std::move(order), multiple_of, std::move(units)),
        filler_(context.parameters, memory_, divides_when_applied(context) ? 1.0 : 1.0 / group_.size(),
                context.options.overlap,
                [this](size_t bucket) { works_.push_back(send(filler_.buckets()[bucket])); }) {
    if (divides_when_applied(context)) {
      optimizer_.divide_gradients_by(group_.size(), context.accelerator->device());
    }
  }

  /// Starts the collective of a bucket whose gradients are final. Buckets come in the order of the plan.
  virtual comm::WorkPtr send(const Bucket& bucket) = 0;

  BucketFiller filler_;
  /// The collectives of this step, in the order of the buckets. A strategy that sends over communicators of
  /// its own must clear this before it destroys them.
  std::vector<comm::WorkPtr> works_;
};

}  // namespace lockstep::strategies
