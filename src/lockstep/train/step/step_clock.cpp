#include "lockstep/train/step/step_clock.h"

#include "lockstep/base/clock.h"

namespace lockstep::train {

double StepClock::synchronize() {
  if (accelerator_ != nullptr) {
    accelerator_->synchronize();
    origin_.mark = accelerator_->mark();
    accelerator_->wait(*origin_.mark);
  }
  origin_.at_s = now_s();
  return origin_.at_s;
}

Instant StepClock::now() const {
  if (accelerator_ == nullptr) return {.at_s = now_s(), .mark = nullptr};
  return {.at_s = 0, .mark = accelerator_->mark()};
}

double StepClock::wait_for(const Instant& instant) const {
  if (instant.mark) accelerator_->wait(*instant.mark);
  return seconds(instant);
}

double StepClock::seconds(const Instant& instant) const {
  if (!instant.mark) return instant.at_s;
  return origin_.at_s + accelerator_->seconds_between(*origin_.mark, *instant.mark);
}

void StepClock::set_by(const Instant& instant) {
  origin_ = {.at_s = seconds(instant), .mark = instant.mark};
}

}  // namespace lockstep::train
