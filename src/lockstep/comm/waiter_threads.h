#pragma once

#include <condition_variable>
#include <ctime>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::comm {

/// Threads for calls that block until something happens elsewhere: a call never waits for another one, as a
/// new thread starts when all are busy. Idle threads sleep and are used again. Thread-safe.
class WaiterThreads {
 public:
  WaiterThreads() = default;
  ~WaiterThreads();
  WaiterThreads(const WaiterThreads&) = delete;
  WaiterThreads& operator=(const WaiterThreads&) = delete;

  /// `call` must not throw. After stop() it is dropped.
  void run(std::function<void()> call);

  /// Returns when every call has; see to it that they do.
  void stop();

  /// Processor seconds of all threads.
  double cpu_s() const;

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  std::vector<std::thread> threads_;
  std::vector<clockid_t> clocks_;
  size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace lockstep::comm
