#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/stoppable_wait.h"

namespace lockstep::strategies {

/// The queue between horovod's two threads: the training thread announces gradients, the background thread
/// hands over the all-reduces that it started. Both sleep while they wait. Thread-safe.
class Announcements {
 public:
  /// `tensors`: the number of tensors of a step.
  explicit Announcements(size_t tensors) : tensors_(tensors), announced_s_(tensors, 0) {}

  // For the training thread.

  void begin_step() {
    const std::lock_guard lock(background_->mutex);
    announced_count_ = 0;
    started_.clear();
    taken_ = 0;
  }
  void announce(size_t tensor) {
    const std::lock_guard lock(background_->mutex);
    announced_.push_back(tensor);
    announced_s_[tensor] = now_s();
    ++announced_count_;
    // If the background thread only waits for its next cycle, waking it would take the core from the backward
    // pass.
    if (waits_for_news_ || announced_count_ == tensors_) background_->changed.notify_all();
  }
  /// Number of tensors not yet announced in this step.
  size_t missing() const {
    const std::lock_guard lock(background_->mutex);
    return tensors_ - announced_count_;
  }
  /// Returns the next all-reduce that was started; blocks until there is one. Throws the background thread's
  /// error.
  comm::WorkPtr next_started() {
    std::unique_lock lock(background_->mutex);
    to_training_.wait(lock, [this] { return failure_ || taken_ < started_.size(); });
    if (failure_) std::rethrow_exception(failure_);
    return std::move(started_[taken_++]);
  }
  /// Tells the background thread to stop.
  void stop() {
    const std::lock_guard lock(background_->mutex);
    background_->stopping = true;
    background_->changed.notify_all();
  }

  // For the background thread.

  /// Blocks until a tensor is announced. Returns false if the thread is to stop.
  bool wait_for_step() {
    std::unique_lock lock(background_->mutex);
    waits_for_news_ = true;
    background_->changed.wait(lock, [this] { return background_->stopping || !announced_.empty(); });
    waits_for_news_ = false;
    return !background_->stopping;
  }
  /// Returns the tensors announced since the last call. Blocks until there are some, then until `not_before`
  /// unless all of the step are announced. Empty if all were returned before. Absent if the thread is to
  /// stop.
  std::optional<std::vector<size_t>> take(std::chrono::steady_clock::time_point not_before) {
    std::unique_lock lock(background_->mutex);
    const auto everything = [this] { return announced_count_ == tensors_; };
    waits_for_news_ = true;
    background_->changed.wait(lock,
                              [&] { return background_->stopping || !announced_.empty() || everything(); });
    waits_for_news_ = false;
    background_->changed.wait_until(lock, not_before, [&] { return background_->stopping || everything(); });
    if (background_->stopping) return std::nullopt;
    return std::exchange(announced_, {});
  }
  /// Time at which the last of `tensors` was announced in this step, on the steady clock.
  double last_announced_s(const std::vector<size_t>& tensors) const {
    const std::lock_guard lock(background_->mutex);
    double last_s = 0;
    for (const size_t tensor : tensors) last_s = std::max(last_s, announced_s_[tensor]);
    return last_s;
  }
  void started(comm::WorkPtr work) {
    const std::lock_guard lock(background_->mutex);
    started_.push_back(std::move(work));
    to_training_.notify_all();
  }
  void failed(std::exception_ptr failure) {
    const std::lock_guard lock(background_->mutex);
    failure_ = std::move(failure);
    to_training_.notify_all();
  }
  /// Blocks until the work is complete, and throws its error. Returns false, with the work still in flight,
  /// if the thread is to stop.
  bool wait(comm::Work& work) { return comm::wait_unless_stopping(work, background_); }

 private:
  const size_t tensors_;
  /// Its mutex guards everything here.
  const std::shared_ptr<comm::StopPoint> background_ = std::make_shared<comm::StopPoint>();
  std::condition_variable to_training_;
  std::vector<size_t> announced_;
  std::vector<double> announced_s_;
  size_t announced_count_ = 0;
  bool waits_for_news_ = false;
  std::vector<comm::WorkPtr> started_;
  size_t taken_ = 0;
  std::exception_ptr failure_;
};

}  // namespace lockstep::strategies
