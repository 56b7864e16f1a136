#include <optional>
#include <vector>

#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/flat_strategy.h"
#include "lockstep/strategies/powersgd.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

/// A replica on every rank, with gradients all-reduced in buckets: `replicated` of tf_cnn_benchmarks and
/// tensorpack, and the same traffic as ddp.
///
/// Sends an all-reduce of P bytes in B messages per step (P: the parameters in fp32; half with a 16-bit
/// `wire`), each bucket as soon as its gradients are ready during backward, or after backward with `overlap`
/// off. The optimizer updates each bucket when it arrives, while later ones are in flight; with a loss scale,
/// after all have arrived. With `powersgd` nothing overlaps: PowerSgd sums all gradients after backward.
///
/// Parameters, gradients and momenta are in flat memory (replica::FlatMemory), and buckets are ranges of it,
/// sent in place. The first step uses the reverse order of registration; rank 0's order of ready gradients in
/// that step then becomes the order of all ranks. A gradient is divided by the number of ranks as it is
/// copied to flat memory. Up to `in_flight` buckets are in flight at once, one if the backend works in the
/// GPU's queues. Parameters are broadcast from rank 0 at the start, batch-norm buffers never.
class Replicated final : public BucketStrategy {
 public:
  explicit Replicated(const StrategyContext& context)
      : BucketStrategy(context, reverse_order(context.parameters.trainable().size())),
        control_(context.host_communicator()),
        cap_bytes_(context.options.bucket_bytes()),
        low_rank_start_(context.options.powersgd_start),
        tensors_(context.parameters.tensors()) {
    lanes_.emplace_back(group_, context.options.wire);
    // In a GPU's queues one operation can saturate the links, and several at once would take more of the GPU
    // away from the backward pass.
    const int in_flight = group_.capabilities().gpu_queues ? 1 : context.options.in_flight;
    for (int i = 1; i < in_flight; ++i) {
      duplicates_.push_back(group_.duplicate());
      lanes_.emplace_back(*duplicates_.back(), context.options.wire);
    }
    if (context.options.powersgd > 0) low_rank_.emplace(context);
    broadcast_values();
    filler_.set_plan(plan_buckets(memory_, cap_bytes_));
  }

  ~Replicated() override { works_.clear(); }

  void begin_step() override {
    if (steps_ > 0) agree_on_order();
    BucketStrategy::begin_step();
  }

  void combine() override {
    filler_.finish();
    if (sends_low_rank()) sum_in_low_rank();
    if (optimizer_.prepares_gradients()) prepare();
    if (sends_low_rank()) apply_to(everything(), steps_ == 0);
    for (size_t i = 0; i < works_.size(); ++i) {
      const replica::Range range = filler_.buckets()[i].range;
      wait_for(*works_[i], memory_.gradients(range));
      apply_to(range, steps_ == 0);
    }
    optimizer_.end_step();
    ++steps_;
  }

  std::vector<at::Tensor> equal_on_all_ranks() const override { return {memory_.gradients(everything())}; }

  void save(replica::State& state) override {
    // Brings the memory to the state at the beginning of the next step.
    if (steps_ > 0) agree_on_order();
    state.same_on_all_ranks = true;
    BucketStrategy::save(state);
    if (!low_rank_) return;
    // Each rank keeps what it left out.
    state.same_on_all_ranks = false;
    low_rank_->save(state);
  }

  void restore(const replica::State& state) override {
    BucketStrategy::restore(state);
    filler_.set_plan(plan_buckets(memory_, cap_bytes_));
    order_agreed_ = steps_ > 0;
    if (low_rank_) low_rank_->restore(state, tensors_);
  }

  int64_t buffer_bytes() const override { return low_rank_ ? low_rank_->buffer_bytes() : 0; }
  std::vector<Measured> measured() const override {
    return low_rank_ ? low_rank_->measured() : std::vector<Measured>();
  }

 private:
  comm::WorkPtr send(const Bucket& bucket) override {
    if (sends_low_rank()) return nullptr;
    // Gradients of the buckets before this one are in works_, so their number is this one's.
    return lanes_[works_.size() % lanes_.size()].start(memory_.gradients(bucket.range));
  }

  /// Waits for all buckets before the first one is applied. Every rank has every sum, so the ranks agree
  /// without an exchange.
  void prepare() {
    const at::Tensor gradients = memory_.gradients(everything());
    for (const comm::WorkPtr& work : works_) wait_for(*work, gradients);
    optimizer_.prepare({gradients});
  }

  bool sends_low_rank() const { return low_rank_ && steps_ >= low_rank_start_; }

  void sum_in_low_rank() {
    works_.clear();
    std::vector<IndexedGradient> gradients;
    for (const size_t index : memory_.order()) gradients.push_back({index, memory_.gradient_view(index)});
    low_rank_->sum(gradients);
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

  comm::Communicator& control_;
  /// The communicators of all lanes but the first.
  std::vector<std::unique_ptr<comm::Communicator>> duplicates_;
  /// Buckets use the lanes in turn, so that one is transferred while another is summed.
  std::vector<WireAllReduce> lanes_;
  int64_t cap_bytes_;
  /// Empty without --wire powersgd.
  std::optional<PowerSgd> low_rank_;
  int64_t low_rank_start_;
  std::vector<at::Tensor> tensors_;
  bool order_agreed_ = false;
};

}  // namespace

std::unique_ptr<Strategy> create_replicated(const StrategyContext& context) {
  return std::make_unique<Replicated>(context);
}

}  // namespace lockstep::strategies
