#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/measure/phases.h"
#include "lockstep/recordings/kineto_trace.h"
#include "lockstep/results/record/recorded.h"

namespace lockstep::recordings {

/// Seconds from `origin_ns` to a time of a trace; minus infinity for the lowest number.
inline double seconds_since(int64_t origin_ns, int64_t time_ns) {
  if (time_ns == std::numeric_limits<int64_t>::min()) return -std::numeric_limits<double>::infinity();
  return 1e-9 * static_cast<double>(time_ns - origin_ns);
}

/// One collective of one rank, in seconds after an origin.
struct Collective {
  /// "all-reduce", "all-gather", ...
  std::string kind;
  /// Name of the process group; empty: the trace does not say.
  std::string group;
  /// Ranks of the group, as PyTorch lists them; may be empty.
  std::string group_ranks;
  /// Size of the input; 0: the trace does not say.
  int64_t bytes = 0;
  /// 0: the trace does not say.
  int element_bytes = 0;
  /// Issue on the host, which decides to which step it belongs.
  double host_s = 0;
  /// Issue: on a CPU that on the host, on a device the end of what its kernel depends on.
  double issued_s = 0;
  double begin_s = 0;
  double ended_s = 0;
  /// Backend's thread or device's stream, numbered from 0 on.
  int lane = 0;
};

/// When the host launched what a device did.
class Launches {
 public:
  explicit Launches(const KinetoTrace& trace);
  /// By correlation; null where the trace lacks the launch.
  const Event* of(const Event& work) const;
  /// Time of the launch of a kernel or copy, an element of the trace's events. What the trace has no launch
  /// of was launched before the trace began (kBefore) if nothing precedes it on its stream that was launched
  /// later; else with its predecessor, since a stream keeps its order. In a trace without any launch, and on
  /// a stream without any in the midst of the trace, the begin of the work.
  int64_t time_ns(const Event& work) const {
    return time_ns_[static_cast<size_t>(&work - trace_.events.data())];
  }
  static constexpr int64_t kBefore = std::numeric_limits<int64_t>::min();

 private:
  const KinetoTrace& trace_;
  /// (correlation, index), sorted.
  std::vector<std::pair<int64_t, size_t>> by_correlation_;
  /// [event]; 0 for those that are not a device's.
  std::vector<int64_t> time_ns_;
};

/// All collectives in order of issue: kernels of NCCL where the trace has kernels, and what ran on the
/// threads of Gloo and MPI. Those that were launched before the trace have the lowest host_s.
std::vector<Collective> collectives_of(const KinetoTrace& trace, const Launches& launches, int64_t origin_ns);

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

/// The steps of one rank with its place in the job.
struct PlacedSteps {
  int rank = 0;
  /// Empty: not known.
  std::string host;
  RankSteps steps;
};

/// The steps that all ranks have: stamps, as measure::break_down takes them, and of the record its work,
/// sizes of inputs, collectives, groups and irregular steps, and notes on clocks.
struct JobSteps : results::Recorded {
  std::vector<measure::RankStamps> stamps;
};

/// Matches steps across ranks by the profiler's number of the step, else by the times of their ends;
/// collectives by group and order, of groups in which all these ranks are. Ranks on one host share a clock.
/// The clocks of others are compared with rank 0's by collectives that none can leave before all have come:
/// the offset is the middle of what they allow, its error half the width. Ranks without any collective need
/// no common step: each has as many of its own. Throws Error where no step is common to others. `ranks`: in
/// order, at least one.
JobSteps put_together(std::vector<PlacedSteps> ranks);

}  // namespace lockstep::recordings
