#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/comm/progress_queue.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

/// What a communicator and its Works share; Works may outlive the communicator. Thread-safe.
class CommunicatorState : public std::enable_shared_from_this<CommunicatorState> {
 public:
  static std::shared_ptr<CommunicatorState> create(std::shared_ptr<Transport> transport, Duration timeout);

  Transport& transport() { return *transport_; }
  Duration timeout() const { return timeout_; }
  /// "rank 1 of 4 over gloo".
  const std::string& where() const { return where_; }

  /// Carries out `task` after all that was submitted before. Throws when the communicator is unusable.
  WorkPtr submit(OperationInfo info, std::function<void(Transport&, Deadline)> task);
  /// A message that the transport has started.
  WorkPtr adopt(std::shared_ptr<Operation> operation);

  /// Throws the first failure, if there was one.
  void check_usable() const;
  /// Makes `failure` final unless there is one already.
  void break_with(const Failure& failure);
  Failure timeout_failure(const Operation& operation, Duration waited) const;

  /// Abandons what is in flight and ends the progress thread.
  void shut_down();

  /// Of the progress thread, and with that of the threads that the transport may share with others.
  double queue_cpu_s() const { return queue_->cpu_s(); }
  double cpu_s() const { return queue_cpu_s() + transport_->helper_cpu_s(); }

 private:
  CommunicatorState(std::shared_ptr<Transport> transport, Duration timeout);

  const std::shared_ptr<Transport> transport_;
  const Duration timeout_;
  const std::string where_;
  std::unique_ptr<ProgressQueue> queue_;
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
};

}  // namespace lockstep::comm
