#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::strategies {

/// What horovod's two threads say to each other: the training thread announces gradients, the background
/// thread hands back the all-reduces that it started. Nobody polls. Thread-safe.
class Announcements {
 public:
  /// How many tensors a step has.
  explicit Announcements(size_t tensors) : tensors_(tensors) {}

  // The training thread.
  void begin_step();
  void announce(size_t tensor);
  /// How many are missing in this step.
  size_t missing() const;
  /// The next all-reduce that was started; blocks until there is one. Throws the background thread's failure.
  comm::WorkPtr next_started();
  /// The background thread is to end.
  void stop();

  // The background thread.
  /// Blocks until a step has begun; false: to end.
  bool wait_for_step();
  /// What was announced since the last call: blocks until there is something, and then, as long as more is to
  /// come, until `not_before`. Where everything was announced before, it is empty. Nothing: to end.
  std::optional<std::vector<size_t>> take(std::chrono::steady_clock::time_point not_before);
  void started(comm::WorkPtr work);
  void failed(std::exception_ptr failure);
  /// Blocks until the work is complete and throws what it throws; false: to end, the work goes on.
  bool wait(comm::Work& work);

 private:
  const size_t tensors_;
  mutable std::mutex mutex_;
  std::condition_variable to_training_, to_background_;
  std::vector<size_t> announced_;
  size_t announced_count_ = 0;
  bool waits_for_news_ = false;
  std::vector<comm::WorkPtr> started_;
  size_t taken_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
};

}  // namespace lockstep::strategies
