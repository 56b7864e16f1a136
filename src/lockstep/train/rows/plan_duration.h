#pragma once

#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// Seconds at least and at most; equal where the number of steps is given.
struct Duration {
  double least_s = 0;
  double most_s = 0;
};

/// Seconds of one rank: to build its part of a row, first step included, and for each later step.
struct StepCost {
  double set_up_s = 0;
  double step_s = 0;
};

/// Trains the row's network on a processor for two steps, as one rank alone with the calling thread's number
/// of threads. A batch that would take seconds is cut, and the second step's time is multiplied accordingly.
/// Throws what RowTrainee throws.
StepCost try_steps(const RowPlan& row);

/// The duration of a row whose ranks need `cost`, and of its breakdown if it has one. Communication is not
/// included.
Duration duration_of(const RowPlan& row, const StepCost& cost, bool breakdown);

}  // namespace lockstep::train
