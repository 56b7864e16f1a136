#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/recordings/collectives.h"
#include "lockstep/recordings/kineto_trace.h"
#include "lockstep/recordings/step_marks.h"
#include "lockstep/results/record/recorded.h"

namespace lockstep::recordings {

/// The steps of one rank, stamped.
struct RankSteps {
  measure::RankStamps stamps;
  /// [step]: collectives in the order of the stamps, which have the same.
  std::vector<std::vector<Collective>> collectives;
  /// [step]: StepMarks::number.
  std::vector<int64_t> numbers;
  /// [step]: place among all steps that end in the trace.
  std::vector<int64_t> indexes;
  /// Samples of a step; 0: the trace does not say.
  int64_t batch = 0;
  /// Backward passes of a step, most often.
  int passes = 1;
  int evaluation_steps = 0;
  int incomplete_steps = 0;
  results::RecordedWork work;
  /// In the order in which backward makes them.
  std::vector<results::RecordedGradient> gradients;
};

/// Stamps the steps of a trace as docs/your-training.md explains, in seconds after `origin_ns`: on a CPU by
/// the host's events; where the trace has kernels, by the last kernel that was launched within a phase.
/// Of the steps that end in the trace, those from `past` on are left out. Throws Error as find_steps() does.
RankSteps stamp_steps(const KinetoTrace& trace, int64_t origin_ns, int64_t past = INT64_MAX);

/// The first `most` events that begin within the steps.
std::vector<measure::KernelSpan> events_within(const std::vector<measure::StepStamps>& steps,
                                               const KinetoTrace& trace, int64_t origin_ns, size_t most);

}  // namespace lockstep::recordings
