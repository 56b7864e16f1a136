#include <vector>

#include "lockstep/strategies/bucket_filler.h"
#include "lockstep/strategies/bucket_plan.h"
#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

/// The first stage of ZeRO (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion
/// Parameter Models"): every rank has all parameters, but updates only its shard, 1/N of every bucket, and
/// keeps momenta for that shard only.
///
/// Sends a reduce-scatter of P' bytes and an all-gather of P' bytes in 2 B messages per step (P': the
/// parameters in fp32, padded so that every bucket divides by N), as many bytes on a ring as an all-reduce. A
/// bucket of gradients is reduce-scattered as soon as it is ready during backward, or after backward with
/// `overlap` off. When its shard has arrived, the rank updates it and starts the all-gather of the
/// parameters, while later buckets are in flight:
///
///     bucket:       |  shard of rank 0  |  shard of rank 1  |  ...  |
///     gradients:    reduce-scatter -> the mean of its own shard on each rank
///     values:       update of the own shard -> all-gather -> all shards on all ranks
///
/// Buckets are always in the reverse order of registration: another order would move momenta to other ranks.
/// Parameters are broadcast from rank 0 at the start, batch-norm buffers never.
class Sharded final : public Strategy {
 public:
  explicit Sharded(const StrategyContext& context)
      : optimizer_(context.optimizer),
        group_(*context.communicator),
        memory_(context.parameters, reverse_order(context.parameters.trainable().size()), group_.size()),
        filler_(context.parameters, memory_, 1.0 / group_.size(), context.options.overlap,
                [this](size_t bucket) { send(bucket); }) {
    broadcast_from_rank_0(group_, memory_.values({0, memory_.count()}));
    const auto cap = context.options.bucket_bytes();
    filler_.set_plan(plan_buckets(memory_, cap, {.multiple_of = group_.size()}));
    std::vector<replica::Range> shards;
    for (const Bucket& bucket : filler_.buckets()) shards.push_back(shard_of(bucket));
    memory_.keep_momenta_of(std::move(shards));
  }

  void begin_step() override {
    filler_.begin_step();
    works_.clear();
  }

  void before_backward(bool last) override { filler_.begin_backward(last); }

  void combine() override {
    filler_.finish();
    const std::vector<Bucket>& buckets = filler_.buckets();
    if (optimizer_.loss_scale) unscale();
    for (size_t i = 0; i < buckets.size(); ++i) {
      const replica::Range shard = shard_of(buckets[i]);
      wait_for(*works_[i], memory_.gradients(shard));
      memory_.apply(shard, optimizer_, steps_ == 0);
      works_[i] =
          group_.all_gather(buffer_of(memory_.values(shard)), buffer_of(memory_.values(buckets[i].range)));
    }
    for (size_t i = 0; i < buckets.size(); ++i) wait_for(*works_[i], memory_.values(buckets[i].range));
    optimizer_.end_step();
    ++steps_;
  }

  // combine() has applied the optimizer shard by shard.
  void apply() override {}

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

 private:
  void send(size_t bucket) {
    const Bucket& full = filler_.buckets()[bucket];
    works_.push_back(group_.reduce_scatter(buffer_of(memory_.gradients(full.range)),
                                           buffer_of(memory_.gradients(shard_of(full))),
                                           comm::ReduceOp::kSum));
  }

  /// Waits for all shards and agrees with the other ranks, because an overflow in any shard skips the updates
  /// of all.
  void unscale() {
    std::vector<at::Tensor> shards;
    for (size_t i = 0; i < works_.size(); ++i) {
      shards.push_back(memory_.gradients(shard_of(filler_.buckets()[i])));
      wait_for(*works_[i], shards.back());
    }
    optimizer_.unscale(shards);
    agree_on_overflow(*optimizer_.loss_scale, group_);
  }

  replica::Range shard_of(const Bucket& bucket) const {
    const int64_t part = bucket.range.count() / group_.size();
    const int64_t begin = bucket.range.begin + group_.rank() * part;
    return {begin, begin + part};
  }

  replica::SgdOptions optimizer_;
  comm::Communicator& group_;
  replica::FlatMemory memory_;
  BucketFiller filler_;
  std::vector<comm::WorkPtr> works_;
  int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> create_sharded(const StrategyContext& context) {
  return std::make_unique<Sharded>(context);
}

}  // namespace lockstep::strategies
