#include "lockstep/strategies/replicated.h"

#include <vector>

#include "lockstep/strategies/bucket_filler.h"
#include "lockstep/strategies/bucket_plan.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/strategies/wire.h"

namespace lockstep::strategies {
namespace {

class Replicated final : public Strategy {
 public:
  explicit Replicated(const StrategyContext& context)
      : optimizer_(context.optimizer),
        group_(*context.communicator),
        control_(context.host_communicator()),
        cap_bytes_(context.options.bucket_bytes()),
        memory_(context.parameters, reverse_order(context.parameters.trainable().size())),
        filler_(context.parameters, memory_, 1.0 / group_.size(), context.options.overlap,
                [this](size_t bucket) { send(bucket); }) {
    lanes_.emplace_back(group_, context.options.wire);
    // In the GPU's queues one operation takes all that the links give; several at a time would take more of
    // the GPU from the backward pass.
    const int in_flight = group_.capabilities().gpu_queues ? 1 : context.options.in_flight;
    for (int i = 1; i < in_flight; ++i) {
      duplicates_.push_back(group_.duplicate());
      lanes_.emplace_back(*duplicates_.back(), context.options.wire);
    }
    at::Tensor values = memory_.values({0, memory_.count()});
    wait_for(*group_.broadcast(buffer_of(values), 0), values);
    filler_.set_plan(plan_buckets(memory_, cap_bytes_));
  }

  void begin_step() override {
    if (steps_ > 0) agree_on_order();
    filler_.begin_step();
    works_.clear();
  }

  void before_backward(bool last) override { filler_.begin_backward(last); }

  void combine() override {
    filler_.finish();
    if (optimizer_.loss_scale) unscale();
    for (size_t i = 0; i < works_.size(); ++i) {
      const replica::Range range = filler_.buckets()[i].range;
      wait_for(*works_[i], memory_.gradients(range));
      memory_.apply(range, optimizer_, steps_ == 0);
    }
    if (optimizer_.loss_scale) optimizer_.loss_scale->update();
    ++steps_;
  }

  // Done bucket by bucket as they arrived.
  void apply() override {}

  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

  std::vector<at::Tensor> equal_on_all_ranks() const override {
    return {memory_.gradients({0, memory_.count()})};
  }

  void save(replica::State& state) override {
    // What the next step would begin with.
    if (steps_ > 0) agree_on_order();
    state.same_on_all_ranks = true;
    state.add("steps", steps_);
    if (optimizer_.loss_scale) optimizer_.loss_scale->save(state);
    memory_.save(state);
  }

  void restore(const replica::State& state) override {
    steps_ = state.number("steps");
    if (optimizer_.loss_scale) optimizer_.loss_scale->restore(state);
    memory_.restore(state);
    filler_.set_plan(plan_buckets(memory_, cap_bytes_));
    order_agreed_ = steps_ > 0;
  }

  int64_t momentum_bytes() const override { return memory_.momentum_bytes(); }

 private:
  void send(size_t bucket) {
    const WireAllReduce& lane = lanes_[bucket % lanes_.size()];
    works_.push_back(lane.start(memory_.gradients(filler_.buckets()[bucket].range)));
  }

  /// Every rank has every sum. One overflow leaves out all, so the last bucket is waited for before the first
  /// is applied.
  void unscale() {
    const at::Tensor gradients = memory_.gradients({0, memory_.count()});
    for (const comm::WorkPtr& work : works_) wait_for(*work, gradients);
    optimizer_.loss_scale->unscale({gradients});
  }

  /// The order in which rank 0's gradients became ready in the first step.
  void agree_on_order() {
    if (order_agreed_) return;
    std::vector<int64_t> order(filler_.ready_order().begin(), filler_.ready_order().end());
    control_.broadcast(comm::host_buffer(order.data(), order.size()), 0)->wait();
    memory_.reorder({order.begin(), order.end()});
    filler_.set_plan(plan_buckets(memory_, cap_bytes_));
    order_agreed_ = true;
  }

  replica::SgdOptions optimizer_;
  comm::Communicator& group_;
  comm::Communicator& control_;
  /// Of the lanes but the first.
  std::vector<std::unique_ptr<comm::Communicator>> duplicates_;
  /// Buckets take turns, so that one moves while another is reduced.
  std::vector<WireAllReduce> lanes_;
  int64_t cap_bytes_;
  replica::FlatMemory memory_;
  BucketFiller filler_;
  std::vector<comm::WorkPtr> works_;
  int64_t steps_ = 0;
  bool order_agreed_ = false;
};

}  // namespace

std::unique_ptr<Strategy> create_replicated(const StrategyContext& context) {
  return std::make_unique<Replicated>(context);
}

}  // namespace lockstep::strategies
