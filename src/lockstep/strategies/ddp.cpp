#include "lockstep/strategies/ddp.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "lockstep/base/error.h"
#include "lockstep/strategies/c10d_backend.h"
#include "lockstep/strategies/tensor_buffer.h"
#include "lockstep/strategies/wire.h"

namespace lockstep::strategies {
namespace {

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

/// What PyTorch's fp16_compress_hook and bf16_compress_hook send: the bucket narrowed, then divided by the
/// number of ranks, then summed. The Reducer widens it as it copies the result into the gradients.
class CompressionHook final : public c10d::CppCommHookInterface<ProcessGroupPtr> {
 public:
  CompressionHook(ProcessGroupPtr group, at::ScalarType wire)
      : CppCommHookInterface(std::move(group)), wire_(wire) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::NoGradGuard no_grad;
    at::Tensor narrow = bucket.getBufferRef().to(wire_);
    narrow.div_(state_->getSize());
    std::vector<at::Tensor> tensors{std::move(narrow)};
    return state_->allreduce(tensors)->getFuture();
  }

 private:
  at::ScalarType wire_;
};

std::unordered_map<size_t, std::string> names_of(const replica::Parameters& parameters) {
  std::unordered_map<size_t, std::string> names;
  for (const replica::NamedTensor& parameter : parameters.trainable()) names[names.size()] = parameter.name;
  return names;
}

class Ddp final : public Strategy {
 public:
  explicit Ddp(const StrategyContext& context)
      : names_(names_of(context.parameters)),
        options_(context.options),
        optimizer_(context.parameters.tensors(), context.optimizer),
        group_(make_process_group(*context.communicator, optimizer_.parameters().front().device())) {
    const std::vector<at::Tensor> tensors = context.parameters.tensors();
    for (const at::Tensor& tensor : tensors) {
      const at::Tensor values = tensor.detach();
      wait_for(*context.communicator->broadcast(buffer_of(values), 0), values);
    }
    // As PyTorch: one bucket in the first step, so that what is rebuilt follows the real ready order.
    auto [buckets, limits] =
        c10d::compute_bucket_assignment_by_size(tensors, {std::numeric_limits<int64_t>::max()});
    make_reducer(std::move(buckets));
  }

  void begin_step() override {
    optimizer_.clear_gradients();
    reducer_->rebuild_buckets();
    reducer_->prepare_for_forward();
  }

  void before_backward(bool last) override {
    // As PyTorch's no_sync: without this the Reducer's hooks leave the gradients to autograd.
    if (last) reducer_->prepare_for_backward({});
  }

  // Nothing to combine: the backward pass ends with the Reducer's own wait for the last bucket.
  void apply() override { optimizer_.step(); }

  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

  std::vector<at::Tensor> equal_on_all_ranks() const override {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : optimizer_.parameters()) gradients.push_back(parameter.grad());
    return gradients;
  }

  void save(replica::State& state) override {
    // What the next step would begin with.
    optimizer_.clear_gradients();
    reducer_->rebuild_buckets();
    state.same_on_all_ranks = true;
    optimizer_.save(state);
    std::vector<size_t> members, counts;
    for (const c10d::GradBucket& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
      const std::vector<at::Tensor> tensors = bucket.getParameters();
      counts.push_back(tensors.size());
      for (const at::Tensor& tensor : tensors) members.push_back(index_of(tensor));
    }
    state.add("bucket_members", members);
    state.add("bucket_counts", counts);
  }

  void restore(const replica::State& state) override {
    optimizer_.restore(state);
    const std::vector<size_t> members = state.numbers("bucket_members");
    std::vector<std::vector<size_t>> buckets;
    auto next = members.begin();
    for (const size_t count : state.numbers("bucket_counts")) {
      if (count > static_cast<size_t>(members.end() - next)) throw Error("the state's buckets do not add up");
      buckets.emplace_back(next, next + static_cast<std::ptrdiff_t>(count));
      next += static_cast<std::ptrdiff_t>(count);
    }
    // The first one's hooks go before the second one has its own.
    reducer_.reset();
    make_reducer(std::move(buckets));
  }

  int64_t momentum_bytes() const override { return optimizer_.momentum_bytes(); }

 private:
  void make_reducer(std::vector<std::vector<size_t>> buckets) {
    const std::vector<at::Tensor>& tensors = optimizer_.parameters();
    const auto cap = options_.bucket_bytes();
    const int64_t first_cap = std::min<int64_t>(c10d::kDefaultFirstBucketBytes, cap);
    reducer_ = std::make_shared<c10d::Reducer>(
        tensors, std::move(buckets), group_, std::vector<bool>(tensors.size(), false), cap,
        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true, names_, first_cap,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>{});
    // Nobody looks at its timings, whose events do not belong into a step that is recorded.
    reducer_->set_ddp_runtime_logging_sample_rate(std::numeric_limits<int>::max());
    if (options_.wire != Wire::kFp32) {
      reducer_->register_comm_hook(std::make_unique<CompressionHook>(group_, scalar_type_of(options_.wire)));
    }
  }

  size_t index_of(const at::Tensor& parameter) const {
    const std::vector<at::Tensor>& all = optimizer_.parameters();
    const auto found =
        std::ranges::find_if(all, [&](const at::Tensor& known) { return known.is_same(parameter); });
    return static_cast<size_t>(found - all.begin());
  }

  std::unordered_map<size_t, std::string> names_;
  StrategyOptions options_;
  replica::Sgd optimizer_;
  ProcessGroupPtr group_;
  std::shared_ptr<c10d::Reducer> reducer_;
};

}  // namespace

std::unique_ptr<Strategy> create_ddp(const StrategyContext& context) {
  return std::make_unique<Ddp>(context);
}

}  // namespace lockstep::strategies
