#include "lockstep/strategies/parameter_server.h"

#include <algorithm>
#include <iterator>
#include <ranges>

#include "lockstep/strategies/bucket_filler.h"
#include "lockstep/strategies/bucket_plan.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {

std::vector<int> assign_owners(const std::vector<int64_t>& bytes, int ranks) {
  std::vector<int64_t> loads(static_cast<size_t>(ranks), 0);
  std::vector<int> owners;
  for (const int64_t tensor : bytes) {
    const auto least = std::ranges::min_element(loads);
    *least += tensor;
    owners.push_back(static_cast<int>(least - loads.begin()));
  }
  return owners;
}

namespace {

std::vector<int> choose_owners(const StrategyContext& context) {
  std::vector<int64_t> bytes;
  for (const at::Tensor& tensor : context.parameters.tensors()) {
    bytes.push_back(static_cast<int64_t>(tensor.nbytes()));
  }
  const bool shared_out = context.options.parameter_owners == ParameterOwners::kSharded;
  return assign_owners(bytes, shared_out ? context.communicator->size() : 1);
}

/// Owner after owner, so that each owns one stretch of memory; within it what is ready first lies first.
std::vector<size_t> order_by_owner(const std::vector<int>& owners) {
  std::vector<size_t> order = reverse_order(owners.size());
  std::ranges::stable_sort(order, {}, [&](size_t parameter) { return owners[parameter]; });
  return order;
}

class ParameterServer final : public Strategy {
 public:
  explicit ParameterServer(const StrategyContext& context)
      : optimizer_(context.optimizer),
        group_(*context.communicator),
        owners_(choose_owners(context)),
        memory_(context.parameters, order_by_owner(owners_)),
        filler_(context.parameters, memory_, 1.0 / group_.size(), context.options.overlap,
                [this](size_t bucket) { send(bucket); }) {
    plan(context.options.bucket_bytes());
    memory_.keep_momenta_of({owned_by(group_.rank())});
  }

  void begin_step() override {
    fetch();
    filler_.begin_step();
    works_.clear();
  }

  void before_backward(bool last) override { filler_.begin_backward(last); }

  void combine() override {
    filler_.finish();
    for (size_t i = 0; i < works_.size(); ++i) {
      works_[i]->wait();
      if (owner_of(i) == group_.rank()) {
        memory_.apply(filler_.buckets()[i].range, optimizer_, steps_ == 0);
      }
    }
    fetched_ = false;
    ++steps_;
  }

  // Done by the owners, bucket by bucket as they arrived.
  void apply() override {}

  void finish() override { fetch(); }

  int64_t momentum_bytes() const override { return memory_.momentum_bytes(); }

 private:
  replica::Range owned_by(int rank) const {
    replica::Range range{memory_.count(), 0};
    for (size_t i = 0; i < owners_.size(); ++i) {
      if (owners_[i] != rank) continue;
      range.begin = std::min(range.begin, memory_.range_of(i).begin);
      range.end = std::max(range.end, memory_.range_of(i).end);
    }
    return range.end == 0 ? replica::Range{} : range;
  }

  int owner_of(size_t bucket) const { return owners_[filler_.buckets()[bucket].parameters.front()]; }

  void plan(int64_t cap_bytes) {
    std::vector<Bucket> buckets;
    for (int rank = 0; rank < group_.size(); ++rank) {
      std::ranges::move(plan_buckets(memory_, cap_bytes, {.within = owned_by(rank)}),
                        std::back_inserter(buckets));
    }
    // The parameter that was registered first is ready last, and its bucket with it.
    std::ranges::stable_sort(buckets, std::ranges::greater{},
                             [](const Bucket& bucket) { return std::ranges::min(bucket.parameters); });
    filler_.set_plan(std::move(buckets));
  }

  void send(size_t bucket) {
    works_.push_back(group_.reduce(buffer_of(memory_.gradients(filler_.buckets()[bucket].range)),
                                   comm::ReduceOp::kSum, owner_of(bucket)));
  }

  /// What forward needs first comes first.
  void fetch() {
    if (fetched_) return;
    std::vector<comm::WorkPtr> works;
    for (size_t i = filler_.buckets().size(); i-- > 0;) {
      const at::Tensor values = memory_.values(filler_.buckets()[i].range);
      works.push_back(group_.broadcast(buffer_of(values), owner_of(i)));
    }
    for (const comm::WorkPtr& work : works) work->wait();
    fetched_ = true;
  }

  replica::SgdOptions optimizer_;
  comm::Communicator& group_;
  /// By parameter.
  std::vector<int> owners_;
  replica::FlatMemory memory_;
  BucketFiller filler_;
  std::vector<comm::WorkPtr> works_;
  bool fetched_ = false;
  int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> create_parameter_server(const StrategyContext& context) {
  return std::make_unique<ParameterServer>(context);
}

}  // namespace lockstep::strategies
