#include "lockstep/comm/communicator_state.h"

#include <fmt/format.h>

#include "lockstep/base/units.h"

namespace lockstep::comm {
namespace {

class OperationWork final : public Work {
 public:
  OperationWork(std::shared_ptr<Operation> operation, std::shared_ptr<CommunicatorState> state)
      : operation_(std::move(operation)), state_(std::move(state)) {}
  ~OperationWork() override { operation_->unwatched(); }

  bool test() override {
    return guarded([&] { return operation_->test(); });
  }

  void wait(Duration timeout) override {
    if (guarded([&] { return operation_->wait_until(deadline_after(timeout)); })) return;
    const Failure failure = state_->timeout_failure(*operation_, timeout);
    state_->break_with(failure);
    operation_->fail(failure);
    failure.raise();
  }

  void wait() override { wait(state_->timeout()); }

  void on_complete(std::function<void()> done) override { operation_->on_complete(std::move(done)); }

  int source() const override { return operation_->source(); }

 private:
  /// A failed message is final for the communicator too; a failed collective has made it so already.
  template <typename Call>
  bool guarded(Call call) {
    try {
      return call();
    } catch (...) {
      state_->break_with(Failure::from_current_exception());
      throw;
    }
  }

  std::shared_ptr<Operation> operation_;
  std::shared_ptr<CommunicatorState> state_;
};

}  // namespace

CommunicatorState::CommunicatorState(std::shared_ptr<Transport> transport, Duration timeout)
    : transport_(std::move(transport)),
      timeout_(timeout),
      where_(fmt::format("rank {} of {} over {}", transport_->rank(), transport_->size(),
                         transport_->backend())) {}

std::shared_ptr<CommunicatorState> CommunicatorState::create(std::shared_ptr<Transport> transport,
                                                             Duration timeout) {
  auto state = std::shared_ptr<CommunicatorState>(new CommunicatorState(std::move(transport), timeout));
  auto failed = [weak = std::weak_ptr(state)](const Failure& failure) {
    if (const auto alive = weak.lock()) alive->break_with(failure);
  };
  state->queue_ = std::make_unique<ProgressQueue>("ls-comm", std::move(failed));
  return state;
}

WorkPtr CommunicatorState::submit(OperationInfo info, std::function<void(Transport&, Deadline)> task) {
  check_usable();
  auto operation = std::make_shared<Operation>(info);
  queue_->push(operation,
               [transport = transport_, task = std::move(task), timeout = timeout_, info, where = where_] {
                 try {
                   task(*transport, deadline_after(timeout));
                 } catch (...) {
                   Failure failure = Failure::from_current_exception();
                   failure.what = fmt::format("{} on {}: {}", info.describe(), where, failure.what);
                   failure.raise();
                 }
               });
  return std::make_unique<OperationWork>(std::move(operation), shared_from_this());
}

WorkPtr CommunicatorState::adopt(std::shared_ptr<Operation> operation) {
  return std::make_unique<OperationWork>(std::move(operation), shared_from_this());
}

void CommunicatorState::check_usable() const {
  std::lock_guard lock(mutex_);
  if (!failure_) return;
  Failure again = *failure_;
  again.what = "this communicator is unusable since it failed: " + again.what;
  again.raise();
}

void CommunicatorState::break_with(const Failure& failure) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
  }
  queue_->fail_all(failure);
  transport_->abort(failure);
}

Failure CommunicatorState::timeout_failure(const Operation& operation, Duration waited) const {
  return {Failure::Kind::kTimeout,
          fmt::format("{} on {}: not complete after {}", operation.info().describe(), where_,
                      format_duration(waited.count())),
          "see whether every rank is alive and takes the same steps; a longer --timeout helps only if one is "
          "slow"};
}

void CommunicatorState::shut_down() {
  if (!queue_->idle() || !transport_->messages_idle()) {
    break_with({Failure::Kind::kComm, fmt::format("{} was destroyed with operations in flight", where_), ""});
  }
  queue_->stop();
  transport_->close();
}

}  // namespace lockstep::comm
