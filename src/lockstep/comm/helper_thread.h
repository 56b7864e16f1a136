#pragma once

#include <condition_variable>
#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// Makes the calling thread one of lockstep's helpers: named (at most 15 characters), SIGPIPE blocked, short
/// sleeps exact to a microsecond.
void set_up_helper_thread(const std::string& name);

/// A thread set up by set_up_helper_thread that counts its processor time. Join or leave it before it is
/// destroyed, as with std::thread; cpu_s() may be called from any thread, the rest from one at a time.
class HelperThread {
 public:
  HelperThread() = default;
  HelperThread(const std::string& name, std::function<void()> body);

  bool joinable() const { return thread_.joinable(); }
  void join() { thread_.join(); }
  /// Joins; a thread that does not end within `limit` is left behind, with everything that `body` holds.
  void join_or_leave(Duration limit);

  /// Processor seconds so far, in the end those of the thread's whole life; 0 without a thread.
  double cpu_s() const;

 private:
  struct Life;

  std::shared_ptr<Life> life_;
  std::thread thread_;
};

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

/// While it lives, a write to a closed socket gives this thread an error instead of ending the process.
class SigpipeBlock {
 public:
  SigpipeBlock();
  ~SigpipeBlock();
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  bool was_blocked_ = false;
};

/// Paces the polling of something that cannot wake its waiter: spins for 20 us, then sleeps 20 us to 0.1 ms,
/// and up to 0.5 ms after a second.
class Backoff {
 public:
  Backoff();
  void pause();

 private:
  double start_s_;
};

}  // namespace lockstep::comm
