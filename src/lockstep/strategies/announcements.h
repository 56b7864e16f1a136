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

/// The queue between horovod's two threads: the training thread announces gradients, the background thread
/// hands over the all-reduces that it started. Both sleep while they wait. Thread-safe.
class Announcements {
 public:
  /// `tensors`: the number of tensors of a step.
  explicit Announcements(size_t tensors) : tensors_(tensors) {}

  // For the training thread.

  void begin_step();
  void announce(size_t tensor);
  /// Number of tensors not yet announced in this step.
  size_t missing() const;
  /// Returns the next all-reduce that was started; blocks until there is one. Throws the background thread's
  /// error.
  comm::WorkPtr next_started();
  /// Tells the background thread to stop.
  void stop();

  // For the background thread.

  /// Blocks until a tensor is announced. Returns false if the thread is to stop.
  bool wait_for_step();
  /// Returns the tensors announced since the last call. Blocks until there are some, then until `not_before`
  /// unless all of the step are announced. Empty if all were returned before. Absent if the thread is to
  /// stop.
  std::optional<std::vector<size_t>> take(std::chrono::steady_clock::time_point not_before);
  void started(comm::WorkPtr work);
  void failed(std::exception_ptr failure);
  /// Blocks until the work is complete, and throws its error. Returns false, with the work still in flight,
  /// if the thread is to stop.
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
