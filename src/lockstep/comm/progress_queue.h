#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/comm/helper_thread.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// One thread that carries out blocking tasks in the order in which they were pushed, and sleeps in between.
/// The thread starts with the first task that is pushed. Thread-safe.
class ProgressQueue {
 public:
  /// A task blocks until its operation is done and throws when it fails. `failed` is called on the queue's
  /// thread before the operation gets the failure.
  using Task = std::function<void()>;
  using FailureHandler = std::function<void(const Failure&)>;

  /// `name`: the thread's, at most 15 characters.
  ProgressQueue(std::string name, FailureHandler failed);
  /// As stop().
  ~ProgressQueue();

  void push(std::shared_ptr<Operation> operation, Task task);

  /// Carries out `task` in the calling thread, if nothing is queued or running, and hands its failure to the
  /// handler. False, having done nothing, if something is. Tasks that are pushed meanwhile come after it.
  bool run_here(const Task& task);

  /// Fails every operation that is queued or running. A running task goes on until it notices.
  void fail_all(const Failure& failure);

  /// Whether nothing is queued or running.
  bool idle() const;

  /// Ends the thread. A task that does not end within a second is left behind with its thread.
  void stop();

  /// Processor seconds of the thread.
  double cpu_s() const;

 private:
  struct Entry {
    std::shared_ptr<Operation> operation;
    Task task;
  };
  /// Outlives the queue when a task has to be left behind.
  struct Shared {
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::deque<Entry> entries;
    /// A task is running, in whichever thread.
    bool busy = false;
    /// The operation of the task that the queue's thread runs.
    std::shared_ptr<Operation> running;
    bool stopping = false;
    FailureHandler failed;
  };

  static void run(Shared& shared);
  static void end(Shared& shared);

  const std::string name_;
  std::shared_ptr<Shared> shared_;
  HelperThread thread_;
};

}  // namespace lockstep::comm
