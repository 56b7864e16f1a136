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

/// A step that was issued to a device. `loss` and `hits` are known once the device has reached the step's
/// end.
struct IssuedStep {
  /// Steps trained before it.
  int64_t step = 0;
  bool timed = false;
  StepInstants at;
  /// Collectives issued in it.
  size_t collectives = 0;
  double loss = 0;
  int64_t hits = 0;
};

/// The steps that were issued to a device and not yet finished, in order. A GPU is given the next steps while
/// it computes, so that it never waits for the host; on the CPU a step is over when it was issued.
class IssuedSteps {
 public:
  /// `accelerator` outlives this; null: the CPU.
  IssuedSteps(replica::Accelerator* accelerator, const StepClock& clock);

  /// Adds a step and stamps its end. Never waits for a GPU. At most most_ahead() other steps may be
  /// unfinished.
  void add(IssuedStep step, const StepOutcome& outcome);

  /// Steps that may be unfinished when the next one is issued.
  size_t most_ahead() const { return accelerator_ == nullptr ? 0 : kMostAhead; }
  size_t count() const { return issued_.size(); }
  /// Removes the oldest step, and waits until the device has reached its end.
  IssuedStep finish_oldest();

 private:
  /// One step that runs and one that is ready to follow it. With fewer the GPU would idle while the host
  /// looks at a finished step; more would only delay the report of a loss that is not finite.
  static constexpr size_t kMostAhead = 2;

  /// Pinned host memory that a GPU copies a step's results to.
  struct Readback {
    at::Tensor loss;
    at::Tensor hits;
  };

  replica::Accelerator* accelerator_;
  const StepClock& clock_;
  std::deque<IssuedStep> issued_;
  /// One more than the steps ahead, used in turn: a step's place is free again when it is finished.
  std::vector<Readback> readbacks_;
  size_t added_ = 0;
};

}  // namespace lockstep::train
