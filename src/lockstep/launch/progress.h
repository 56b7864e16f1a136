#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "lockstep/base/fields.h"
#include "lockstep/launch/step_board.h"

namespace lockstep::launch {

/// A rank's progress, written by the training thread and read by the one that sends heartbeats. Reporting a
/// step is a store or three, because it is part of the measured path.
class Progress {
 public:
  struct Snapshot {
    /// Steps completed of the row that `label` names; 0 before the first.
    int64_t step = 0;
    std::string label;

    LOCKSTEP_DESCRIBE(kNotNegative, step, label)
  };

  /// Names the row that runs from now on, "resnet50 ddp 2 ranks". Steps start over.
  void begin(std::string label) {
    const std::lock_guard lock(mutex_);
    label_ = std::move(label);
    step_.store(0, std::memory_order_relaxed);
  }

  /// `steps` are completed since begin().
  void completed(int64_t steps) noexcept { step_.store(steps, std::memory_order_relaxed); }

  /// Records the time of every timed step in `times`, which is cleared; null: no longer. For the training
  /// thread, between two rows.
  void keep_times(StepTimes* times) noexcept {
    times_ = times;
    if (times_ != nullptr) times_->clear();
  }

  /// The next timed step took so long.
  void took(double step_s) noexcept {
    if (times_ != nullptr) times_->add(step_s);
  }

  Snapshot snapshot() const {
    const std::lock_guard lock(mutex_);
    return {step_.load(std::memory_order_relaxed), label_};
  }

 private:
  std::atomic<int64_t> step_{0};
  mutable std::mutex mutex_;
  std::string label_;
  StepTimes* times_ = nullptr;
};

}  // namespace lockstep::launch
