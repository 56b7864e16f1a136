#pragma once

#include <optional>
#include <vector>

#include "lockstep/measure/stretches.h"
#include "lockstep/recordings/kineto_trace.h"

namespace lockstep::recordings {

using measure::Stretch;

/// Forward and backward of one batch as its host issued them, in seconds after an origin.
struct Pass {
  double begin_s = 0;
  /// The batch is there: DataLoader's next has returned, and the first operation begins.
  double input_s = 0;
  /// The first node of backward begins.
  double forward_s = 0;
  /// The last gradient is added up.
  double backward_s = 0;
  /// Samples, by the first layer's input; 0: the trace does not say.
  int64_t batch = 0;
};

struct StepMarks {
  double begin_s = 0;
  /// The last update is complete.
  double updated_s = 0;
  /// The next batch is asked for, where a DataLoader says when; else the last update is complete.
  double end_s = 0;
  /// Several where gradients are accumulated.
  std::vector<Pass> passes;
  /// Calls of optimizers, in order; the last ends the step. Empty where the trace has no optimizer.
  std::vector<Stretch> updates;
  /// Number in the recorder's mark or in ProfilerStep#N; -1 without.
  int64_t number = -1;
  /// Place among all steps that end in the trace, complete or not.
  int64_t index = 0;
};

struct TraceMarks {
  std::vector<StepMarks> steps;
  /// Batches without backward, which are in no step.
  int evaluation_steps = 0;
  /// At the begin and the end of the trace.
  int incomplete_steps = 0;
  /// Whether DataLoader's next says when batches are there.
  bool has_loader = false;
};

/// Finds the steps of a trace: a step ends where the recorder marked it; without marks, with the last update
/// before the next batch; without an optimizer, with ProfilerStep. Throws Error where the trace has none of
/// these, or no complete step.
TraceMarks find_steps(const KinetoTrace& trace, int64_t origin_ns);

}  // namespace lockstep::recordings
