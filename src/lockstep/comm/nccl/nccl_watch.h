#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/comm/cuda/cuda_check.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/comm/nccl/nccl_link.h"

namespace lockstep::comm {

/// One operation in the communicator's stream. First held (a message that is not issued yet), then begun,
/// issued, and complete when the GPU has reached its end, unless it was captured into a CUDA graph. NcclWatch
/// asks the GPU, in the order of the operations, which is the order in which they end. Thread-safe.
class NcclOperation final : public Operation {
 public:
  using Operation::Operation;

  /// Records that a thread is about to put the operation into the stream, where NCCL may wait for other
  /// ranks. Its time runs from here.
  void begin(Deadline deadline);
  /// Records that the operation is in the stream now, with `end` right after it. `captured`: it runs whenever
  /// the graph is launched, and the host never learns when it is complete.
  void issued(std::shared_ptr<CudaEvent> end, bool captured);

  bool captured() const { return captured_; }

  /// Whether there is nothing left for the watch to learn of it: it was captured.
  bool left_to_graph() const { return issued_ && captured_; }

  /// Asks the GPU, and passes an outcome on. True when there is one. Never blocks. For the watch only.
  bool poll() noexcept;

  /// Whether the GPU has reached its end; not asked of an end that was captured. Never blocks.
  bool reached() const { return issued_ && !captured_ && end_->reached(); }

  /// Makes work queued on `stream` from now on start after the operation, which must have been issued.
  /// Throws.
  void hold(cudaStream_t stream) const { end_->hold(stream); }

  /// Whether a thread of the host waits for it.
  bool urgent() const { return urgent_; }
  void hurry() { urgent_ = true; }

 private:
  std::atomic<bool> captured_{false};
  /// Set after end_ and captured_, which do not change afterwards.
  std::atomic<bool> issued_{false};
  std::atomic<bool> urgent_{false};
  std::shared_ptr<CudaEvent> end_;
  /// Set once, before the operation is handed to the watch.
  Deadline deadline_{};
};

/// A thread that follows operations to their end: it completes them for waiters on the host, in order, and
/// ends the communicator when an operation takes too long, when NCCL reports an error, and on request. It
/// asks the GPU every 20 us to 0.5 ms while a waiter is in a hurry, 20 times a second otherwise, and sleeps
/// while nothing is in flight. Thread-safe.
class NcclWatch {
 public:
  using FailureHandler = std::function<void(const Failure&)>;

  /// `failed` is called with the first failure, on the watch's thread, before the operations fail.
  NcclWatch(std::shared_ptr<NcclLink> link, FailureHandler failed);
  /// As stop().
  ~NcclWatch();

  /// Follows an operation that has begun, after all those added before.
  void add(const std::shared_ptr<NcclOperation>& operation);
  /// Checks at once: an operation was marked as urgent.
  void wake();
  /// From now on checks NCCL for errors even while nothing is in flight: CUDA graphs hold operations that the
  /// watch does not see.
  void watch_graphs();

  /// Fails all operations, and ends NCCL's communicator soon.
  void fail(const Failure& why);

  /// Whether nothing is in flight. Throws the GPU's error.
  bool idle() const;

  /// Ends NCCL's communicator, in good order unless something failed or is in flight, and the thread. A
  /// communicator that does not end within 5 seconds is left behind with its thread.
  void stop();

  double cpu_s() const { return thread_.cpu_s(); }

 private:
  /// Outlives the watch when a thread has to be left behind.
  struct Shared {
    std::shared_ptr<NcclLink> link;
    FailureHandler failed;
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::shared_ptr<NcclOperation>> pending;
    bool woken = false;
    bool graphs = false;
    bool stopping = false;
    std::optional<Failure> failure;
  };

  static void run(Shared& shared);
  static void check_operations(Shared& shared, std::unique_lock<std::mutex>& lock);
  static void fail_all(Shared& shared, std::unique_lock<std::mutex>& lock);

  std::shared_ptr<Shared> shared_;
  HelperThread thread_;
};

}  // namespace lockstep::comm
