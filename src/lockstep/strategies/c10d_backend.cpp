#include "lockstep/strategies/c10d_backend.h"

#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

using TensorList = std::vector<at::Tensor>;

/// One collective of ours as the Work and the Future that c10d expects.
class BackendWork final : public c10d::Work {
 public:
  BackendWork(c10d::OpType type, TensorList tensors)
      : c10d::Work(-1, type),
        tensors_(std::move(tensors)),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

  /// Completes the future when `work` does. The communicator's thread holds what it needs until then, so this
  /// object may be dropped before.
  void follow(comm::WorkPtr work) {
    std::shared_ptr<comm::Work> shared = std::move(work);
    work_ = shared;
    shared->on_complete([shared = shared.get(), future = future_, tensors = tensors_] {
      try {
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

  /// Kept by the backend until complete, because c10d drops a Work as soon as it has its future.
  const std::shared_ptr<comm::Work>& work() const { return work_; }

 private:
  TensorList tensors_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::shared_ptr<comm::Work> work_;
};

class CommunicatorBackend final : public c10d::Backend {
 public:
  explicit CommunicatorBackend(comm::Communicator& communicator)
      : c10d::Backend(communicator.rank(), communicator.size()), communicator_(communicator) {}

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
    in_flight_.push_back(work);
    work->follow(collective(buffer_of(tensors.front())));
    return work;
  }

  comm::Communicator& communicator_;
  std::vector<c10::intrusive_ptr<BackendWork>> in_flight_;
};

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(comm::Communicator& communicator) {
  // The store is never used: the ranks have met already.
  auto group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(),
                                                       communicator.rank(), communicator.size());
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<CommunicatorBackend>(communicator));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  return group;
}

}  // namespace lockstep::strategies
