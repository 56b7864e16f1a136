#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "lockstep/base/error.h"
#include "lockstep/replica/own_stream.h"
#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/powersgd.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
using TensorList = std::vector<at::Tensor>;

/// The devices whose streams a Future must make wait.
std::vector<c10::Device> gpus_of(const TensorList& tensors) {
  return tensors.front().is_cuda() ? std::vector{tensors.front().device()} : std::vector<c10::Device>();
}

/// A collective of a Communicator as the Work and the Future that c10d expects.
class BackendWork final : public c10d::Work {
 public:
  BackendWork(c10d::OpType type, TensorList tensors)
      : c10d::Work(-1, type),
        tensors_(std::move(tensors)),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                         gpus_of(tensors_))) {}

  /// For work in a GPU's queues: completes the future at once, with events of stream `side`, which waits for
  /// the work. A stream that waits for the future then waits for the work, and no host thread does.
  void follow_in_stream(comm::WorkPtr work, c10::Stream side) {
    work->wait_in_stream(side.native_handle());
    work_ = std::move(work);
    const c10::StreamGuard in_side(side);
    future_->markCompleted(c10::IValue(tensors_));
  }

  /// For other work: completes the future when `work` completes. The callback owns everything that it needs,
  /// because c10d may drop this object before.
  void follow(comm::WorkPtr work) {
    std::shared_ptr<comm::Work> shared = std::move(work);
    work_ = shared;
    shared->on_complete([shared = shared.get(), future = future_, tensors = tensors_] {
      try {
        // The communicator's thread has no current GPU; without this the future would record events on the
        // first one.
        const c10::DeviceGuard on_device(tensors.front().device());
        shared->test();
        future->markCompleted(c10::IValue(tensors));
      } catch (...) {
        future->setErrorIfNeeded(std::current_exception());
      }
    });
  }

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    future_->waitAndThrow();
    return true;
  }
  TensorList result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  TensorList tensors_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::shared_ptr<comm::Work> work_;
};

class CommunicatorBackend final : public c10d::Backend {
 public:
  CommunicatorBackend(comm::Communicator& communicator, at::Device device)
      : c10d::Backend(communicator.rank(), communicator.size()), communicator_(communicator) {
    if (device.is_cuda() && communicator.capabilities().gpu_queues) side_.emplace(device);
  }

  const std::string getBackendName() const override { return "lockstep"; }

  c10::intrusive_ptr<c10d::Work> allreduce(TensorList& tensors,
                                           const c10d::AllreduceOptions& options) override {
    if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
      throw Error("c10d asked for a reduction other than a sum");
    return start(c10d::OpType::ALLREDUCE, tensors, [&](const comm::Buffer& buffer) {
      return communicator_.all_reduce(buffer, comm::ReduceOp::kSum);
    });
  }

  c10::intrusive_ptr<c10d::Work> broadcast(TensorList& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return start(c10d::OpType::BROADCAST, tensors, [&](const comm::Buffer& buffer) {
      return communicator_.broadcast(buffer, static_cast<int>(options.rootRank));
    });
  }

 private:
  template <typename Collective>
  c10::intrusive_ptr<c10d::Work> start(c10d::OpType type, const TensorList& tensors, Collective collective) {
    if (tensors.size() != 1) throw Error("c10d passed other than one tensor to a collective");
    std::erase_if(in_flight_, [](const auto& work) { return work->isCompleted(); });
    auto work = c10::make_intrusive<BackendWork>(type, tensors);
    // c10d drops a Work as soon as it has its future.
    in_flight_.push_back(work);
    comm::WorkPtr own = collective(buffer_of(tensors.front()));
    if (side_) {
      work->follow_in_stream(std::move(own), side_->get());
    } else {
      work->follow(std::move(own));
    }
    return work;
  }

  comm::Communicator& communicator_;
  /// Waits for operations of a communicator that works in the GPU's queues; one for all of them, because they
  /// complete in order.
  std::optional<replica::OwnStream> side_;
  std::vector<c10::intrusive_ptr<BackendWork>> in_flight_;
};

/// A c10d process group whose only backend is `communicator`, which must outlive it. It has what
/// c10d::Reducer needs: all-reduce by sum, and broadcast, of tensors on `device`. Waiting for one of its
/// Works or Futures makes the calling thread's stream wait, as c10d defines it; the host waits too if the
/// communicator does not work in the GPU's queues.
ProcessGroupPtr make_process_group(comm::Communicator& communicator, at::Device device) {
  // The constructor requires a store, but it is never used: the ranks are connected already.
  auto group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(),
                                                       communicator.rank(), communicator.size());
  group->setBackend(device.type(), c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<CommunicatorBackend>(communicator, device));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  return group;
}

/// The same computation as PyTorch's fp16_compress_hook and bf16_compress_hook: the bucket is narrowed,
/// divided by the number of ranks, and summed. The Reducer widens the result as it copies it to the
/// gradients.
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

/// As PyTorch's powerSGD_hook, bucket by bucket; the backward pass waits for each.
class PowerSgdHook final : public c10d::CppCommHookInterface<ProcessGroupPtr> {
 public:
  using IndexOf = std::function<size_t(const at::Tensor& parameter)>;

  PowerSgdHook(ProcessGroupPtr group, PowerSgd& low_rank, IndexOf index_of)
      : CppCommHookInterface(std::move(group)), low_rank_(low_rank), index_of_(std::move(index_of)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::NoGradGuard no_grad;
    TensorList sums{bucket.getBufferRef()};
    sums.front().div_(state_->getSize());
    if (!begun_) return state_->allreduce(sums)->getFuture();
    std::vector<IndexedGradient> gradients;
    const TensorList parameters = bucket.getParameters(), views = bucket.getGradients();
    for (size_t i = 0; i < views.size(); ++i) gradients.push_back({index_of_(parameters[i]), views[i]});
    low_rank_.sum(gradients);
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                           gpus_of(sums));
    future->markCompleted(c10::IValue(sums));
    return future;
  }

  void begin() { begun_ = true; }

 private:
  PowerSgd& low_rank_;
  IndexOf index_of_;
  bool begun_ = false;
};

std::unordered_map<size_t, std::string> names_of(const replica::Parameters& parameters) {
  std::unordered_map<size_t, std::string> names;
  for (const replica::NamedTensor& parameter : parameters.trainable()) names[names.size()] = parameter.name;
  return names;
}

/// PyTorch's DistributedDataParallel, by its own C++ core: LibTorch's c10d::Reducer over lockstep's
/// communicator. Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
///
/// Sends gradients in buckets during backward: an all-reduce of P bytes in B messages per step (P: the
/// parameters in fp32; half with a 16-bit `wire`; by PowerSgd with `powersgd`). The optimizer runs after the
/// last bucket.
///
/// The first step reduces everything as one bucket. Before the second one, the Reducer rebuilds the buckets
/// in the order in which gradients became ready: the first has a cap of min(1 MiB, bucket_mb), the others of
/// bucket_mb. A bucket is closed once it reaches its cap, so it may exceed it by nearly one tensor. Gradients
/// are views of the buckets, divided by the number of ranks as they are copied in. Parameters are broadcast
/// from rank 0 at the start, batch-norm buffers never.
class Ddp final : public Strategy {
 public:
  explicit Ddp(const StrategyContext& context)
      : names_(names_of(context.parameters)),
        options_(context.options),
        optimizer_(context.parameters.tensors(), context.optimizer),
        group_(make_process_group(*context.communicator, optimizer_.parameters().front().device())) {
    const std::vector<at::Tensor> tensors = context.parameters.tensors();
    if (options_.powersgd > 0) low_rank_.emplace(context);
    for (const at::Tensor& tensor : tensors) broadcast_from_rank_0(*context.communicator, tensor.detach());
    // One bucket in the first step, as in PyTorch; the rebuilt ones then follow the actual order of
    // gradients.
    auto [buckets, limits] =
        c10d::compute_bucket_assignment_by_size(tensors, {std::numeric_limits<int64_t>::max()});
    make_reducer(std::move(buckets));
  }

  void begin_step() override {
    optimizer_.clear_gradients();
    reducer_->rebuild_buckets();
    reducer_->prepare_for_forward();
    if (hook_ != nullptr && steps_ >= options_.powersgd_start) hook_->begin();
    ++steps_;
  }

  void before_backward(bool last) override {
    // Without this call the Reducer's hooks leave gradients to autograd, as in PyTorch's no_sync().
    if (last) reducer_->prepare_for_backward({});
  }

  // No combine(): the backward pass ends when the Reducer has waited for the last bucket.
  void apply() override { optimizer_.step(); }

  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

  std::vector<at::Tensor> equal_on_all_ranks() const override {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : optimizer_.parameters()) gradients.push_back(parameter.grad());
    return gradients;
  }

  void save(replica::State& state) override {
    // Brings the buckets to the state at the beginning of the next step.
    optimizer_.clear_gradients();
    reducer_->rebuild_buckets();
    state.same_on_all_ranks = true;
    optimizer_.save(state);
    if (low_rank_) {
      // Each rank keeps what it left out.
      state.same_on_all_ranks = false;
      state.add("steps", steps_);
      low_rank_->save(state);
    }
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
    // The old Reducer must remove its hooks before the new one adds its own.
    reducer_.reset();
    make_reducer(std::move(buckets));
    if (!low_rank_) return;
    steps_ = state.number("steps");
    low_rank_->restore(state, optimizer_.parameters());
  }

  int64_t buffer_bytes() const override { return low_rank_ ? low_rank_->buffer_bytes() : 0; }
  std::vector<Measured> measured() const override {
    return low_rank_ ? low_rank_->measured() : std::vector<Measured>();
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
    // Disables the Reducer's timing, which is not used: its events cannot be recorded into a CUDA graph.
    reducer_->set_ddp_runtime_logging_sample_rate(std::numeric_limits<int>::max());
    if (options_.wire != Wire::kFp32) {
      reducer_->register_comm_hook(std::make_unique<CompressionHook>(group_, scalar_type_of(options_.wire)));
    }
    if (!low_rank_) return;
    auto hook = std::make_unique<PowerSgdHook>(
        group_, *low_rank_, [this](const at::Tensor& parameter) { return index_of(parameter); });
    hook_ = hook.get();
    reducer_->register_comm_hook(std::move(hook));
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
  /// Empty without --wire powersgd; reducer_ has the hook that uses it.
  std::optional<PowerSgd> low_rank_;
  PowerSgdHook* hook_ = nullptr;
  /// Steps begun.
  int64_t steps_ = 0;
  std::shared_ptr<c10d::Reducer> reducer_;
};

}  // namespace

std::unique_ptr<Strategy> create_ddp(const StrategyContext& context) {
  return std::make_unique<Ddp>(context);
}

}  // namespace lockstep::strategies
