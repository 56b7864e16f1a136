#include "lockstep/comm/operation.h"

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include "lockstep/base/units.h"

namespace lockstep::comm {

Deadline deadline_after(Duration duration) {
  // Some 30 years; far longer ones would overflow the clock.
  const double never_s = 1e9;
  const Duration bounded(std::clamp(duration.count(), 0.0, never_s));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(bounded);
}

void Failure::raise() const {
  switch (kind) {
    case Kind::kTimeout:
      throw TimeoutError(*this);
    case Kind::kPeerLost:
      throw PeerLostError(*this);
    case Kind::kConfig:
      throw ConfigError(*this);
    case Kind::kOther:
      throw Error(*this);
    case Kind::kComm:
      break;
  }
  throw CommError(*this);
}

Failure Failure::from_current_exception() {
  // Derived classes first: TimeoutError and PeerLostError are CommErrors.
  try {
    throw;
  } catch (const TimeoutError& error) {
    return {trouble_of(error), Kind::kTimeout};
  } catch (const PeerLostError& error) {
    return {trouble_of(error), Kind::kPeerLost};
  } catch (const CommError& error) {
    return {trouble_of(error), Kind::kComm};
  } catch (const ConfigError& error) {
    return {trouble_of(error), Kind::kConfig};
  } catch (const Error& error) {
    return {trouble_of(error), Kind::kOther};
  } catch (const std::exception& error) {
    return {trouble_of(error), Kind::kComm};
  } catch (...) {
    return {{"an exception of unknown type"}, Kind::kComm};
  }
}

std::string OperationInfo::describe() const {
  std::string text = bytes == 0 ? name : fmt::format("{} of {}", name, format_bytes(int64_t(bytes)));
  if (peer >= 0) text += fmt::format(" {} rank {}", std::string_view(name) == "send" ? "to" : "from", peer);
  if (tag >= 0) text += fmt::format(" with tag {}", tag);
  return text;
}

void Operation::complete(int source) {
  finish(std::nullopt, source);
}

void Operation::fail(Failure failure) {
  finish(std::move(failure), -1);
}

void Operation::finish(std::optional<Failure> failure, int source) {
  std::function<void()> done;
  {
    // Notified under the lock: a waiter may destroy this object as soon as it sees the outcome.
    std::lock_guard lock(mutex_);
    // The first outcome counts: an abort may race with the end of the operation.
    if (finished_) return;
    finished_ = true;
    failure_ = std::move(failure);
    source_ = source;
    done = std::move(done_);
    changed_.notify_all();
  }
  // A copy called without the lock: the callback may ask for the outcome, or release this object.
  if (done) done();
}

bool Operation::outcome_or_raise() const {
  // Called with the lock held; the exception leaves with copies of the texts.
  if (finished_ && failure_) failure_->raise();
  return finished_;
}

bool Operation::has_outcome() const {
  std::lock_guard lock(mutex_);
  return finished_;
}

bool Operation::test() {
  std::lock_guard lock(mutex_);
  return outcome_or_raise();
}

bool Operation::wait_until(Deadline deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return finished_; });
  return outcome_or_raise();
}

void Operation::on_complete(std::function<void()> done) {
  {
    std::lock_guard lock(mutex_);
    if (!finished_) {
      done_ = std::move(done);
      return;
    }
  }
  // Complete already: called at once, on this thread, without the lock.
  done();
}

int Operation::source() const {
  std::lock_guard lock(mutex_);
  return source_;
}

}  // namespace lockstep::comm
