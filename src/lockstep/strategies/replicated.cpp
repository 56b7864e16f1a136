#include "lockstep/strategies/replicated.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mul.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/strategies/bucket_plan.h"
#include "lockstep/strategies/gradient_hooks.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

/// Last registered, first ready: nearly right for every network.
std::vector<size_t> reverse_order(size_t parameters) {
  std::vector<size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return order;
}

class Replicated final : public Strategy {
 public:
  explicit Replicated(const StrategyContext& context)
      : parameters_(context.parameters),
        optimizer_(context.optimizer),
        group_(*context.communicator),
        overlap_(context.options.overlap),
        cap_bytes_(static_cast<int64_t>(context.options.bucket_mb * static_cast<double>(kMiB))),
        memory_(context.parameters, reverse_order(context.parameters.trainable().size())),
        hooks_(context.parameters.tensors(),
               [this](size_t index, const at::Tensor& gradient) { gradient_ready(index, gradient); }) {
    at::Tensor values = memory_.values({0, memory_.count()});
    group_.broadcast(buffer_of(values), 0)->wait();
    plan();
  }

  void begin_step() override {
    if (!ready_order_.empty() && steps_ == 1) agree_on_order();
    ready_order_.clear();
    issued_ = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) missing_[i] = buckets_[i].parameters.size();
  }

  void combine() override {
    check_all_ready();
    issue_full_buckets();
    for (size_t i = 0; i < buckets_.size(); ++i) {
      works_[i]->wait();
      works_[i].reset();
      memory_.apply(buckets_[i].range, optimizer_, steps_ == 0);
    }
    ++steps_;
  }

  // Done bucket by bucket as they arrived.
  void apply() override {}

  std::vector<at::Tensor> equal_on_all_ranks() const override {
    return {memory_.gradients({0, memory_.count()})};
  }

 private:
  void plan() {
    buckets_ = plan_buckets(memory_, cap_bytes_);
    missing_.assign(buckets_.size(), 0);
    works_.resize(buckets_.size());
    buckets_of_.assign(parameters_.trainable().size(), {});
    for (size_t i = 0; i < buckets_.size(); ++i) {
      for (const size_t parameter : buckets_[i].parameters) buckets_of_[parameter].push_back(i);
    }
  }

  /// From the backward pass.
  void gradient_ready(size_t index, const at::Tensor& gradient) {
    const at::NoGradGuard no_grad;
    at::Tensor place = memory_.gradient_view(index);
    if (group_.size() == 1) {
      place.copy_(gradient);
    } else {
      at::mul_out(place, gradient, at::Scalar(1.0 / group_.size()));
    }
    if (steps_ == 0) ready_order_.push_back(index);
    for (const size_t bucket : buckets_of_[index]) --missing_[bucket];
    if (overlap_) issue_full_buckets();
  }

  /// In the order of the plan, which is the same on all ranks.
  void issue_full_buckets() {
    while (issued_ < buckets_.size() && missing_[issued_] == 0) {
      works_[issued_] =
          group_.all_reduce(buffer_of(memory_.gradients(buckets_[issued_].range)), comm::ReduceOp::kSum);
      ++issued_;
    }
  }

  void check_all_ready() const {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      if (missing_[i] == 0) continue;
      throw Error(fmt::format("{} parameters of bucket {} got no gradient in this step", missing_[i], i + 1),
                  "replicated needs a network that uses all of its parameters in every step.");
    }
  }

  /// The order in which rank 0's gradients became ready in the first step.
  void agree_on_order() {
    std::vector<int64_t> order(ready_order_.begin(), ready_order_.end());
    group_.broadcast(comm::host_buffer(order.data(), order.size()), 0)->wait();
    memory_.reorder({order.begin(), order.end()});
    plan();
  }

  replica::Parameters& parameters_;
  replica::SgdOptions optimizer_;
  comm::Communicator& group_;
  bool overlap_;
  int64_t cap_bytes_;
  replica::FlatMemory memory_;
  GradientHooks hooks_;
  std::vector<Bucket> buckets_;
  /// By parameter.
  std::vector<std::vector<size_t>> buckets_of_;
  /// Gradients that each bucket still waits for.
  std::vector<size_t> missing_;
  std::vector<comm::WorkPtr> works_;
  size_t issued_ = 0;
  std::vector<size_t> ready_order_;
  int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> create_replicated(const StrategyContext& context) {
  return std::make_unique<Replicated>(context);
}

}  // namespace lockstep::strategies
