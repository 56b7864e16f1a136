#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// State that a communicator shares with its Works, which may outlive it. The first failure is final for all
/// of them. Held in a shared_ptr. Thread-safe.
class Session : public std::enable_shared_from_this<Session> {
 public:
  /// `where`: "rank 1 of 4 over gloo".
  Session(std::string where, Duration timeout);
  virtual ~Session() = default;

  Duration timeout() const { return timeout_; }
  const std::string& where() const { return where_; }

  bool usable() const { return !failed_; }
  /// Throws the first failure, if there was one: as that of an earlier operation, or as it was.
  void check_usable() const;
  void raise_failure() const;
  /// Makes `failure` final unless there was one before.
  void break_with(const Failure& failure);
  /// Makes a time-out of `operation` final, fails the operation with it, and throws it.
  [[noreturn]] void time_out(Operation& operation, Duration waited);
  Failure timeout_failure(const Operation& operation, Duration waited) const;
  /// The failure of a communicator that is destroyed too early.
  Failure destroyed_in_flight() const;

  /// Counts another session's own threads in cpu_s() for as long as that session lives, without keeping it
  /// alive: its connections close with it.
  void add_duplicate(const std::shared_ptr<Session>& other);
  /// Processor seconds of all threads, and of the duplicates' own.
  double cpu_s() const;

 private:
  /// Called once, with the first failure: gives up everything in flight.
  virtual void abandon(const Failure& failure) = 0;
  /// Processor seconds of the threads that belong to this session alone, and of those that duplicates use
  /// too.
  virtual double own_cpu_s() const = 0;
  virtual double shared_cpu_s() const { return 0; }

  const std::string where_;
  const Duration timeout_;
  mutable std::mutex mutex_;
  /// Never changes once `failed_` is set.
  std::optional<Failure> failure_;
  std::atomic<bool> failed_{false};
  std::vector<std::weak_ptr<Session>> duplicates_;
};

/// A Work on an Operation. Failures that it meets become the session's.
class OperationWork : public Work {
 public:
  OperationWork(std::shared_ptr<Operation> operation, std::shared_ptr<Session> session);
  ~OperationWork() override { operation_->unwatched(); }

  bool test() override;
  void wait(Duration timeout) override;
  void wait() override { wait(session_->timeout()); }
  void on_complete(std::function<void()> done) override;
  int source() const override { return operation_->source(); }

 protected:
  /// Runs `call`; a failed message is final for the communicator too, as a failed collective is already.
  template <typename Call>
  bool guarded(Call call) {
    try {
      return call();
    } catch (...) {
      session_->break_with(Failure::from_current_exception());
      throw;
    }
  }

 private:
  /// Called before the outcome is asked for on the host. May throw.
  virtual void before_asking() {}

  const std::shared_ptr<Operation> operation_;
  const std::shared_ptr<Session> session_;
};

}  // namespace lockstep::comm
