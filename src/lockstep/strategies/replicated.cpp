#include <vector>

#include "lockstep/strategies/bucket_filler.h"
#include "lockstep/strategies/bucket_plan.h"
#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/strategies/wire.h"

namespace lockstep::strategies {
namespace {

/// A replica on every rank, with gradients all-reduced in buckets: `replicated` of tf_cnn_benchmarks and
/// tensorpack, and the same traffic as ddp.
///
/// Sends an all-reduce of P bytes in B messages per step (P: the parameters in fp32; half with a 16-bit
/// `wire`), each bucket as soon as its gradients are ready during backward, or after backward with `overlap`
/// off. The optimizer updates each bucket when it arrives, while later ones are in flight; with a loss scale,
/// after all have arrived.
///
/// Parameters, gradients and momenta are in flat memory (replica::FlatMemory), and buckets are ranges of it,
/// sent in place. The first step uses the reverse order of registration; rank 0's order of ready gradients in
/// that step then becomes the order of all ranks. A gradient is divided by the number of ranks as it is
/// copied to flat memory. Up to `in_flight` buckets are in flight at once, one if the backend works in the
/// GPU's queues. Parameters are broadcast from rank 0 at the start, batch-norm buffers never.
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
    // In a GPU's queues one operation can saturate the links, and several at once would take more of the GPU
    // away from the backward pass.
    const int in_flight = group_.capabilities().gpu_queues ? 1 : context.options.in_flight;
    for (int i = 1; i < in_flight; ++i) {
      duplicates_.push_back(group_.duplicate());
      lanes_.emplace_back(*duplicates_.back(), context.options.wire);
    }
    broadcast_from_rank_0(group_, memory_.values({0, memory_.count()}));
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
    optimizer_.end_step();
    ++steps_;
  }

  // combine() has applied the optimizer bucket by bucket.
  void apply() override {}

  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

  std::vector<at::Tensor> equal_on_all_ranks() const override {
    return {memory_.gradients({0, memory_.count()})};
  }

  void save(replica::State& state) override {
    // Brings the memory to the state at the beginning of the next step.
    if (steps_ > 0) agree_on_order();
    state.same_on_all_ranks = true;
    state.add("steps", steps_);
    optimizer_.save_scale(state);
    memory_.save(state);
  }

  void restore(const replica::State& state) override {
    steps_ = state.number("steps");
    optimizer_.restore_scale(state);
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

  /// Waits for all buckets before the first one is applied, because one overflow skips all updates. Every
  /// rank has every sum, so the ranks need not exchange what they found.
  void unscale() {
    const at::Tensor gradients = memory_.gradients({0, memory_.count()});
    for (const comm::WorkPtr& work : works_) wait_for(*work, gradients);
    optimizer_.unscale({gradients});
  }

  /// Adopts the order in which rank 0's gradients became ready in the first step. Every rank must use the
  /// same one, and without an exchange they could differ.
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
  /// The communicators of all lanes but the first.
  std::vector<std::unique_ptr<comm::Communicator>> duplicates_;
  /// Buckets use the lanes in turn, so that one is transferred while another is summed.
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
