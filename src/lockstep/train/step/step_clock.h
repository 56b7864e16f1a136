#pragma once

#include <utility>
#include <vector>

#include "lockstep/base/activity.h"
#include "lockstep/base/clock.h"
#include "lockstep/replica/accelerator.h"

namespace lockstep::train {

/// A moment of a step: on the CPU a reading of the host's clock, on a GPU a mark in its stream, whose time is
/// known once the GPU has reached it.
struct Instant {
  double at_s = 0;
  /// On the CPU the processor time of the thread.
  double processor_s = 0;
  replica::Accelerator::MarkPtr mark;
};

/// Stamps events on a replica's device, in seconds on the host's steady clock. Stamping never
/// blocks. Only now() may be called from several threads.
class StepClock {
 public:
  /// `accelerator` outlives this; null: the CPU.
  explicit StepClock(replica::Accelerator* accelerator) : accelerator_(accelerator) {}

  /// Waits until the device has done all its work, and sets its clock by the host's. Call before the first
  /// instant, and between steps. Returns the time.
  double synchronize() {
    if (accelerator_ != nullptr) {
      accelerator_->synchronize();
      origin_.mark = accelerator_->mark();
      accelerator_->wait(*origin_.mark);
    }
    origin_.processor_s = processor_clock_s(CLOCK_THREAD_CPUTIME_ID);
    return origin_.at_s = now_s();
  }

  Instant now() const {
    if (accelerator_ != nullptr) return {.mark = accelerator_->mark()};
    return {.at_s = now_s(), .processor_s = processor_clock_s(CLOCK_THREAD_CPUTIME_ID)};
  }

  /// Blocks until the device has reached the instant. Returns its time.
  double wait_for(const Instant& instant) const {
    if (instant.mark) accelerator_->wait(*instant.mark);
    return seconds(instant);
  }
  /// The time of an instant that the device has reached, at most a few seconds after its clock was set.
  double seconds(const Instant& instant) const {
    if (!instant.mark) return instant.at_s;
    return origin_.at_s + accelerator_->seconds_between(*origin_.mark, *instant.mark);
  }

  /// The processor time of the thread when the clock was set.
  double processor_origin_s() const { return origin_.processor_s; }

  /// Counts from this instant on, whose time is `at_s` (seconds()). A GPU measures the distance of two marks,
  /// less exactly the farther they are apart.
  void set_by(const Instant& instant, double at_s) {
    origin_ = instant;
    origin_.at_s = at_s;
  }

 private:
  replica::Accelerator* accelerator_;
  /// The instant from which the GPU's marks are counted.
  Instant origin_;
};

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
