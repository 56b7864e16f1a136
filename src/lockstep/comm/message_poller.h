#pragma once

#include <condition_variable>
#include <ctime>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// An operation whose library tells of its end only when asked.
class PolledOperation : public Operation {
 public:
  using Operation::Operation;

  /// Asks, and passes an outcome on. True when there is one. Never blocks, never throws. Thread-safe.
  virtual bool poll() noexcept = 0;
};

/// A thread that asks operations for their end on behalf of those who want to be called or woken: it sleeps
/// 20 us to 0.5 ms between rounds, longer the longer nothing happens, and without an end while there is
/// nothing to ask. Starts with the first operation. Thread-safe.
class MessagePoller {
 public:
  MessagePoller() = default;
  ~MessagePoller();
  MessagePoller(const MessagePoller&) = delete;
  MessagePoller& operator=(const MessagePoller&) = delete;

  void add(std::shared_ptr<PolledOperation> operation);

  /// Ends the thread; operations without an outcome are no longer asked.
  void stop();

  double cpu_s() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<PolledOperation>> added_;
  bool stopping_ = false;
  clockid_t clock_{};
  bool has_clock_ = false;
  double final_cpu_s_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::comm
