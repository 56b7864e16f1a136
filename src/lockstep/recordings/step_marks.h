#pragma once

#include <optional>
#include <vector>

#include "lockstep/measure/stretches.h"
#include "lockstep/recordings/kineto_trace.h"

namespace lockstep::recordings {

using measure::Stretch;

/// Forward and backward as the host issued them, in seconds after an origin.
struct Pass {
  double begin_s = 0;
  /// The batch is there: DataLoader's next has returned, and the first operation begins.
  double input_s = 0;
  /// The first node of backward begins.
  double forward_s = 0;
  /// The last gradient is added up.
  double backward_s = 0;
  /// Samples and elements of the first layer's input; 0: the trace does not say.
  int64_t batch = 0;
  int64_t input_elements = 0;
  /// Whether it is the first of its batch: networks that are trained by turns make several of one.
  bool begins_batch = true;
};

struct StepMarks {
  double begin_s = 0;
  /// The last update is complete.
  double updated_s = 0;
  /// The next batch is asked for, where a DataLoader says when; else the last update is complete.
  double end_s = 0;
  /// Several where gradients are accumulated or networks trained by turns. None where the optimizer makes
  /// them in its own call (LBFGS).
  std::vector<Pass> passes;
  /// Micro-batches, and the samples and input elements of all.
  int batches = 0;
  int64_t samples = 0;
  int64_t input_elements = 0;
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
  /// Whether a mark tells where the first step begins. Else it may have begun long after the trace did, or
  /// before.
  bool first_is_certain = true;
};

/// Finds the steps of a trace: a step ends where the recorder marked it; without marks, with the last update
/// before the next batch; without an optimizer, with ProfilerStep. Throws Error where the trace has none of
/// these, or no complete step.
TraceMarks find_steps(const KinetoTrace& trace, int64_t origin_ns);

}  // namespace lockstep::recordings
