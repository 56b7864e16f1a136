#include <vector>

#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/flat_strategy.h"

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
class Sharded final : public BucketStrategy {
 public:
  explicit Sharded(const StrategyContext& context)
      : BucketStrategy(context, reverse_order(context.parameters.trainable().size()),
                       context.communicator->size()) {
    broadcast_values();
    const auto cap = context.options.bucket_bytes();
    filler_.set_plan(plan_buckets(memory_, cap, {.multiple_of = group_.size()}));
    std::vector<replica::Range> shards;
    for (const Bucket& bucket : filler_.buckets()) shards.push_back(shard_of(bucket));
    memory_.keep_momenta_of(std::move(shards));
  }

  void combine() override {
    filler_.finish();
    const std::vector<Bucket>& buckets = filler_.buckets();
    if (optimizer_.prepares_gradients()) prepare();
    for (size_t i = 0; i < buckets.size(); ++i) {
      const replica::Range shard = shard_of(buckets[i]);
      wait_for(*works_[i], memory_.gradients(shard));
      apply_to(shard, steps_ == 0);
      works_[i] =
          group_.all_gather(buffer_of(memory_.values(shard)), buffer_of(memory_.values(buckets[i].range)));
    }
    for (size_t i = 0; i < buckets.size(); ++i) wait_for(*works_[i], memory_.values(buckets[i].range));
    optimizer_.end_step();
    ++steps_;
  }

 private:
  comm::WorkPtr send(const Bucket& bucket) override {
    return group_.reduce_scatter(buffer_of(memory_.gradients(bucket.range)),
                                 buffer_of(memory_.gradients(shard_of(bucket))), comm::ReduceOp::kSum);
  }

  /// Waits for all shards, and agrees with the other ranks, which have the others.
  void prepare() {
    std::vector<at::Tensor> shards;
    for (size_t i = 0; i < works_.size(); ++i) {
      shards.push_back(memory_.gradients(shard_of(filler_.buckets()[i])));
      wait_for(*works_[i], shards.back());
    }
    optimizer_.prepare(shards, agreement_over(group_));
  }

  replica::Range shard_of(const Bucket& bucket) const {
    const int64_t part = bucket.range.count() / group_.size();
    const int64_t begin = bucket.range.begin + group_.rank() * part;
    return {begin, begin + part};
  }
};

}  // namespace

std::unique_ptr<Strategy> create_sharded(const StrategyContext& context) {
  return std::make_unique<Sharded>(context);
}

}  // namespace lockstep::strategies
