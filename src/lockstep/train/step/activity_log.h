#pragma once

#include <utility>
#include <vector>

#include "lockstep/base/activity.h"
#include "lockstep/train/step/step_clock.h"

namespace lockstep::train {

/// Stamps the activities of a step on a clock, between start() and take().
class ActivityLog final : public ActivityListener {
 public:
  struct Entry {
    Activity activity = Activity::kCommunicating;
    Instant begin, end;
  };

  /// `clock` must outlive the log, or the next take().
  void start(const StepClock& clock) { clock_ = &clock; }

  void begins(Activity activity) override {
    if (clock_ != nullptr) entries_.push_back({activity, clock_->now(), {}});
  }
  void ends() override {
    if (clock_ != nullptr) entries_.back().end = clock_->now();
  }

  /// Returns the activities since start(), in order.
  std::vector<Entry> take() {
    clock_ = nullptr;
    return std::exchange(entries_, {});
  }

 private:
  const StepClock* clock_ = nullptr;
  std::vector<Entry> entries_;
};

}  // namespace lockstep::train
