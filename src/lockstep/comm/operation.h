#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/types.h"

namespace lockstep::comm {

using Deadline = Clock::time_point;

/// `duration` from now; durations beyond some years count as "never".
Deadline deadline_after(Duration duration);

/// The failure of an operation, in a form that several threads can throw, more than once.
struct Failure : Trouble {
  enum class Kind { kComm, kTimeout, kPeerLost, kConfig, kOther };

  Kind kind = Kind::kComm;

  /// Throws the exception of lockstep/base/error.h that `kind` stands for.
  [[noreturn]] void raise() const;

  /// Call from a catch block only.
  static Failure from_current_exception();
};

/// Names an operation in messages.
struct OperationInfo {
  const char* name = "";
  size_t bytes = 0;
  int peer = -1;
  int tag = -1;

  /// "all_reduce of 25.0 MiB", "receive of 812 B from rank 3 with tag 7".
  std::string describe() const;
};

inline OperationInfo info_of(const Collective& collective) {
  return {collective.name(), collective.bytes()};
}
inline OperationInfo info_of(const Message& message) {
  return {message.name(), message.buffer.bytes(), message.peer, message.tag};
}

/// The outcome of one operation, shared by the thread that carries it out and those that wait for it.
/// Thread-safe. The first outcome counts; later ones are ignored.
class Operation {
 public:
  explicit Operation(OperationInfo info) : info_(info) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  const OperationInfo& info() const { return info_; }

  void complete(int source = -1);
  void fail(Failure failure);

  /// Whether there is an outcome; throws the failure. Never blocks.
  virtual bool test();
  /// False when the deadline came first. Throws the failure.
  virtual bool wait_until(Deadline deadline);
  /// See Work::on_complete.
  virtual void on_complete(std::function<void()> done);

  /// Promises that test, wait_until and on_complete will not be called any more.
  virtual void unwatched() {}

  int source() const;
  bool has_outcome() const;

 private:
  bool outcome_or_raise() const;
  void finish(std::optional<Failure> failure, int source);

  const OperationInfo info_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  int source_ = -1;
  std::optional<Failure> failure_;
  std::function<void()> done_;
};

/// The messages of a transport that have no outcome yet. Thread-safe.
template <typename Kind = Operation>
class PendingMessages {
 public:
  void add(std::shared_ptr<Kind> message) {
    const std::lock_guard lock(mutex_);
    forget_finished();
    messages_.push_back(std::move(message));
  }

  bool empty() {
    const std::lock_guard lock(mutex_);
    forget_finished();
    return messages_.empty();
  }

  /// Hands over all of them, for a caller that fails them: their callbacks must run without the lock.
  std::vector<std::shared_ptr<Kind>> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }

 private:
  void forget_finished() {
    std::erase_if(messages_, [](const auto& message) { return message->has_outcome(); });
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Kind>> messages_;
};

}  // namespace lockstep::comm
