#include "lockstep/comm/session.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/units.h"

namespace lockstep::comm {

Session::Session(std::string where, Duration timeout) : where_(std::move(where)), timeout_(timeout) {}

void Session::check_usable() const {
  if (!failed_) return;
  Failure again = *failure_;
  again.what = "this communicator is unusable since it failed: " + again.what;
  again.raise();
}

void Session::raise_failure() const {
  if (failed_) failure_->raise();
}

void Session::break_with(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = failure;
    failed_ = true;
  }
  // Only the first failure gets here, the one that later calls report. Outside the lock: abandon() fails
  // operations, whose callbacks may come back here.
  abandon(failure);
}

void Session::time_out(Operation& operation, Duration waited) {
  const Failure failure = timeout_failure(operation, waited);
  break_with(failure);
  // A message may be unknown to whatever abandon() fails; a second failure is ignored.
  operation.fail(failure);
  failure.raise();
}

Failure Session::timeout_failure(const Operation& operation, Duration waited) const {
  return {{fmt::format("{} on {}: not complete after {}", operation.info().describe(), where_,
                       format_duration(waited.count())),
           "check that every rank is alive and takes the same steps; a longer --timeout helps only if one is "
           "slow"},
          Failure::Kind::kTimeout};
}

Failure Session::destroyed_in_flight() const {
  return {{fmt::format("{} was destroyed with operations in flight", where_)}, Failure::Kind::kComm};
}

void Session::add_duplicate(const std::shared_ptr<Session>& other) {
  const std::lock_guard lock(mutex_);
  std::erase_if(duplicates_, [](const auto& duplicate) { return duplicate.expired(); });
  duplicates_.push_back(other);
}

double Session::cpu_s() const {
  // A duplicate's shared threads are among this session's.
  double sum_s = own_cpu_s() + shared_cpu_s();
  const std::lock_guard lock(mutex_);
  for (const auto& duplicate : duplicates_) {
    if (const auto session = duplicate.lock()) sum_s += session->own_cpu_s();
  }
  return sum_s;
}

OperationWork::OperationWork(std::shared_ptr<Operation> operation, std::shared_ptr<Session> session)
    : operation_(std::move(operation)), session_(std::move(session)) {}

bool OperationWork::test() {
  before_asking();
  return guarded([&] { return operation_->test(); });
}

void OperationWork::wait(Duration timeout) {
  before_asking();
  // False is a time-out, which no exception reports: the operation itself goes on.
  if (guarded([&] { return operation_->wait_until(deadline_after(timeout)); })) return;
  session_->time_out(*operation_, timeout);
}

void OperationWork::on_complete(std::function<void()> done) {
  before_asking();
  operation_->on_complete(std::move(done));
}

}  // namespace lockstep::comm
