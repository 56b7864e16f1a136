#pragma once

#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// What a training step costs one rank that communicates with nobody, from a few steps with few images.
struct StepSample {
  /// The part of a step that any batch takes (the optimizer, reading weights), and that of every image.
  double fixed_s = 0;
  double per_image_s = 0;
  /// Time to build the network and its batches, and what the first step takes beyond the later ones.
  double build_s = 0;
  double first_s = 0;
  /// The most images of a step that was run.
  int images = 0;

  double step_s(int batch) const { return fixed_s + per_image_s * batch; }
};

/// Trains the network of a row on a processor, all weights 0, with the calling thread's number of threads:
/// once with few and once with more pixels, at most the row's batch, of smaller images than the row's if
/// those would take too long. Takes about as long as the budget says, but never less than five steps. Throws
/// what RowTrainee throws.
StepSample sample_steps(const RowPlan& row, double budget_s);

}  // namespace lockstep::train
