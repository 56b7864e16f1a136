#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/measure/phases.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/train/step/step_clock.h"
#include "lockstep/train/step/training_step.h"

namespace lockstep::train {

/// A step that a device was given: what is known of it at once, and what once the device has come to its end.
struct IssuedStep {
  /// How many were trained before.
  int64_t step = 0;
  bool timed = false;
  StepInstants at;
  /// Collectives that were issued in it.
  size_t collectives = 0;
  double loss = 0;
  int64_t hits = 0;
};

/// The steps that a device was given and whose ends were not looked at, in order. A GPU is given the next
/// ones while it computes, so that it never waits for the host; on the CPU a step is over when it was issued.
class IssuedSteps {
 public:
  /// `accelerator` outlives this; null: the CPU.
  IssuedSteps(replica::Accelerator* accelerator, const StepClock& clock);

  /// Adds a step and stamps its end. Never waits for a GPU. At most most_ahead() others are left.
  void add(IssuedStep step, const StepOutcome& outcome);

  /// How many may be left when the next one is issued.
  size_t most_ahead() const { return accelerator_ == nullptr ? 0 : kMostAhead; }
  size_t count() const { return issued_.size(); }
  /// Takes out the oldest, and waits until the device has come to its end.
  IssuedStep finish_oldest();

 private:
  /// One that runs and one that waits for it; more would only delay bad news.
  static constexpr size_t kMostAhead = 2;

  /// Host memory that a GPU writes to.
  struct Readback {
    at::Tensor loss;
    at::Tensor hits;
  };

  replica::Accelerator* accelerator_;
  const StepClock& clock_;
  std::deque<IssuedStep> issued_;
  /// Taken in turn.
  std::vector<Readback> readbacks_;
  size_t added_ = 0;
};

}  // namespace lockstep::train
