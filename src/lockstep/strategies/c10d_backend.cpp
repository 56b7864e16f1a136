#include "lockstep/strategies/c10d_backend.h"

#include <optional>
#include <utility>
#include <vector>

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

using TensorList = std::vector<at::Tensor>;

/// Whose streams a Future has to make wait.
std::vector<c10::Device> gpus_of(const TensorList& tensors) {
  return tensors.front().is_cuda() ? std::vector{tensors.front().device()} : std::vector<c10::Device>();
}

/// One collective of ours as the Work and the Future that c10d expects.
class BackendWork final : public c10d::Work {
 public:
  BackendWork(c10d::OpType type, TensorList tensors)
      : c10d::Work(-1, type),
        tensors_(std::move(tensors)),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                         gpus_of(tensors_))) {}

  /// Completes the future at once: who waits for it waits for what `side` holds now, and that is `work`.
  void follow_in_stream(comm::WorkPtr work, c10::Stream side) {
    work->wait_in_stream(side.native_handle());
    work_ = std::move(work);
    const c10::StreamGuard in_side(side);
    future_->markCompleted(c10::IValue(tensors_));
  }

  /// Completes the future when `work` does. The communicator's thread holds what it needs until then, so this
  /// object may be dropped before.
  void follow(comm::WorkPtr work) {
    std::shared_ptr<comm::Work> shared = std::move(work);
    work_ = shared;
    shared->on_complete([shared = shared.get(), future = future_, tensors = tensors_] {
      try {
        // The communicator's thread has chosen no GPU, and the future's events are not to choose the first.
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

/// A stream of the GPU's in which to wait for what a communicator does in its queues.
std::optional<c10::Stream> side_stream(const comm::Communicator& communicator, at::Device device) {
  if (!device.is_cuda() || !communicator.capabilities().gpu_queues) return std::nullopt;
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

class CommunicatorBackend final : public c10d::Backend {
 public:
  CommunicatorBackend(comm::Communicator& communicator, at::Device device)
      : c10d::Backend(communicator.rank(), communicator.size()),
        communicator_(communicator),
        side_(side_stream(communicator, device)) {}

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
      work->follow_in_stream(std::move(own), *side_);
    } else {
      work->follow(std::move(own));
    }
    return work;
  }

  comm::Communicator& communicator_;
  /// Operations of a communicator end in their order, so one is enough for all.
  std::optional<c10::Stream> side_;
  std::vector<c10::intrusive_ptr<BackendWork>> in_flight_;
};

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(comm::Communicator& communicator,
                                                          at::Device device) {
  // The store is never used: the ranks have met already.
  auto group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(),
                                                       communicator.rank(), communicator.size());
  group->setBackend(device.type(), c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<CommunicatorBackend>(communicator, device));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  return group;
}

}  // namespace lockstep::strategies
