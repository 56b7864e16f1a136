#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/recordings/collectives.h"
#include "lockstep/recordings/kineto_trace.h"
#include "lockstep/recordings/step_marks.h"
#include "lockstep/results/record/recorded.h"

namespace lockstep::recordings {

/// One step of one rank.
struct RankStep {
  measure::StepStamps stamps;
  /// In order of issue.
  std::vector<Collective> collectives;
  /// StepMarks::number.
  int64_t number = -1;
  /// Place among all steps that end in the trace.
  int64_t index = 0;
  /// Of the device or, without one, of the host.
  results::RecordedWork work;
  /// Elements of the first layer's input; 0: the trace does not say.
  int64_t input_elements = 0;
};

/// The steps of one rank, stamped.
struct RankSteps {
  std::vector<RankStep> steps;
  /// Samples of a step, most often, and their mean; 0: the trace does not say.
  int64_t batch = 0;
  double mean_samples = 0;
  /// Micro-batches of a step, most often.
  int passes = 1;
  bool has_loader = false;
  int evaluation_steps = 0;
  int incomplete_steps = 0;
  /// Steps that are left out for what they are, each a sentence.
  std::vector<std::string> notes;
  /// In the order in which backward makes them.
  std::vector<results::RecordedGradient> gradients;
};

/// Stamps the steps of a trace as docs/measuring.md defines them, in seconds after `origin_ns`: on a CPU by
/// the host's events; where the trace has kernels, by the last kernel that was launched within a phase.
/// Of the steps that end in the trace, those from `past` on are left out, and so is a first one whose begin
/// is not certain, or that takes longer than all others by more than they differ, where others remain. Throws
/// Error as find_steps() does.
RankSteps stamp_steps(const KinetoTrace& trace, int64_t origin_ns, int64_t past = INT64_MAX);

/// The first `most` events that begin within the steps.
std::vector<measure::KernelSpan> events_within(const std::vector<RankStep>& steps, const KinetoTrace& trace,
                                               int64_t origin_ns, size_t most);

}  // namespace lockstep::recordings
