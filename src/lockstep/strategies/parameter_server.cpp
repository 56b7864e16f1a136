#include <optional>
#include <ranges>
#include <utility>

#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/flat_strategy.h"
#include "lockstep/strategies/parameter_shards.h"

namespace lockstep::strategies {
namespace {

/// Without a GPU the replica is in host memory anyway.
bool keeps_on_host(const StrategyContext& context) {
  return context.accelerator != nullptr && context.options.parameter_device == ParameterDevice::kCpu;
}

/// One copy of the variables, owned by the ranks: `parameter_server` of tf_cnn_benchmarks and tensorpack; Li
/// et al. 2014, "Scaling Distributed Machine Learning with the Parameter Server".
///
/// Sends a reduce of P bytes and a broadcast of P bytes in 2 B messages per step (P: the parameters in fp32),
/// every bucket from and to the rank that owns it. Gradients are reduced to their owner as soon as a bucket
/// is ready during backward, or after backward with `overlap` off. The owner alone has momenta and applies
/// the optimizer once. The next step begins with a fetch, a broadcast by every owner, and forward starts when
/// all of it has arrived.
///
/// Whole tensors are assigned to owners by assign_owners(), or all of them to rank 0 (`parameter_owners`). A
/// bucket contains tensors of one owner. Gradients are divided by the number of ranks as they are copied to
/// flat memory. With `parameter_device` cpu, an owner with a GPU keeps and updates its variables in host
/// memory (HostShard). Batch-norm buffers stay each rank's own.
class ParameterServer final : public BucketStrategy {
 public:
  explicit ParameterServer(const StrategyContext& context)
      : ParameterServer(context, choose_owners(context)) {}

  void begin_step() override {
    fetch();
    BucketStrategy::begin_step();
  }

  void combine() override {
    filler_.finish();
    if (optimizer_.prepares_gradients()) prepare();
    for (size_t i = 0; i < works_.size(); ++i) {
      const replica::Range range = filler_.buckets()[i].range;
      wait_for(*works_[i], memory_.gradients(range));
      if (owner_of(filler_.buckets()[i], owners_) != group_.rank()) continue;
      if (shard_) {
        shard_->take_gradients(range);
      } else {
        apply_to(range, steps_ == 0);
      }
    }
    if (shard_) {
      const ActivityScope applying(activities_, Activity::kApplying);
      shard_->apply(optimizer_, steps_ == 0);
    }
    optimizer_.end_step();
    fetched_ = false;
    ++steps_;
  }

  void finish() override { fetch(); }

  void save(replica::State& state) override {
    BucketStrategy::save(state);
    if (shard_) shard_->save(state);
  }

  void restore(const replica::State& state) override {
    BucketStrategy::restore(state);
    if (shard_) shard_->restore(state);
    // The restored parameters are those that were fetched before the state was saved.
    fetched_ = steps_ > 0;
  }

  int64_t momentum_bytes() const override {
    return shard_ ? shard_->momentum_bytes() : memory_.momentum_bytes();
  }
  int64_t buffer_bytes() const override { return shard_ ? shard_->buffer_bytes() : 0; }

 private:
  ParameterServer(const StrategyContext& context, std::vector<int> owners)
      : BucketStrategy(context, order_by_owner(owners)), owners_(std::move(owners)) {
    filler_.set_plan(plan_owned_buckets(memory_, owners_, group_.size(), context.options.bucket_bytes()));
    const replica::Range owned = owned_range(memory_, owners_, group_.rank());
    const bool on_host = keeps_on_host(context);
    memory_.keep_momenta_of({on_host ? replica::Range{} : owned});
    if (on_host) shard_.emplace(memory_, owned, *context.accelerator);
  }

  comm::WorkPtr send(const Bucket& bucket) override {
    return group_.reduce(buffer_of(memory_.gradients(bucket.range)), comm::ReduceOp::kSum,
                         owner_of(bucket, owners_));
  }

  /// Waits for all buckets, and agrees with the other owners.
  void prepare() {
    const at::Tensor own = memory_.gradients(owned_range(memory_, owners_, group_.rank()));
    for (const comm::WorkPtr& work : works_) wait_for(*work, own);
    optimizer_.prepare({own}, agreement_over(group_));
  }

  /// Broadcasts the values, in the order in which forward needs them.
  void fetch() {
    if (fetched_) return;
    const ActivityScope fetching(group_.size() > 1 ? activities_ : nullptr, Activity::kCommunicating);
    std::vector<comm::WorkPtr> works;
    for (const Bucket& bucket : filler_.buckets() | std::views::reverse) {
      works.push_back(group_.broadcast(buffer_of(memory_.values(bucket.range)), owner_of(bucket, owners_)));
    }
    for (const comm::WorkPtr& work : works) wait_for(*work, memory_.values({}));
    fetched_ = true;
  }

  /// The owner of each parameter.
  std::vector<int> owners_;
  /// The variables of this rank if they are kept in host memory.
  std::optional<HostShard> shard_;
  bool fetched_ = false;
};

}  // namespace

std::unique_ptr<Strategy> create_parameter_server(const StrategyContext& context) {
  if (context.options.consistency == Consistency::kAsync) return create_async_parameter_server(context);
  return std::make_unique<ParameterServer>(context);
}

}  // namespace lockstep::strategies
