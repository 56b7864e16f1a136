#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {

/// Threads for calls that block until something happens elsewhere: no call waits for another one, since a new
/// thread starts when all are busy. Idle threads sleep and are reused. Thread-safe.
class WaiterThreads {
 public:
  WaiterThreads() = default;
  ~WaiterThreads();
  WaiterThreads(const WaiterThreads&) = delete;
  WaiterThreads& operator=(const WaiterThreads&) = delete;

  /// `call` must not throw. After stop() it is dropped.
  void run(std::function<void()> call);

  /// Returns when every call has returned; the caller makes sure that they do.
  void stop();

  /// Processor seconds of all threads; 0 after stop().
  double cpu_s() const;

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  std::vector<HelperThread> threads_;
  size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace lockstep::comm
