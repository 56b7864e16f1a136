#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/fields.h"

namespace lockstep::measure {

/// Issue and completion of one collective on one rank, in seconds on that host's steady clock.
struct CollectiveStamp {
  int64_t bytes = 0;
  double issued_s = 0;
  double ended_s = 0;
  /// Collectives of one lane run one after the other, those of different lanes at the same time.
  int lane = 0;

  LOCKSTEP_DESCRIBE(kOptional, bytes, issued_s, ended_s, lane)
};

/// The time at which the turn of collective `index` came: it was issued, and its lane had finished all
/// before.
double turn_s(const std::vector<CollectiveStamp>& collectives, size_t index);

/// A stretch of time on one clock, in seconds.
struct Stretch {
  double begin_s = 0;
  double end_s = 0;

  LOCKSTEP_DESCRIBE(kOptional, begin_s, end_s)
};

/// Processor time in a step of the thread that trains, in seconds. All 0: not known, or a GPU trained.
struct ProcessorTimes {
  /// Before backward, and behind the optimizer.
  double before_s = 0;
  double backward_s = 0;
  double optimizer_s = 0;

  LOCKSTEP_DESCRIBE(kOptional, before_s, backward_s, optimizer_s)

  void add(const ProcessorTimes& times, double weight);
};

enum class StepPhase { kInput, kForward, kBackward, kExposed, kOptimizer, kOther };

struct PhaseStretch {
  StepPhase phase = StepPhase::kOther;
  double begin_s = 0;
  double end_s = 0;
};

/// Ends of the phases of one step on one rank, in seconds on that host's steady clock. `begin_s` is the end
/// of the step before.
struct StepStamps {
  double begin_s = 0;
  /// With accumulation over several micro-batches, the time that the phases of all but the last took. The
  /// ends below belong to the last one.
  double earlier_input_s = 0;
  double earlier_forward_s = 0;
  double earlier_backward_s = 0;
  /// Likewise the parts of `communicating` in these forward and backward passes, which do not count it.
  double earlier_communicating_s = 0;
  double input_s = 0;
  double forward_s = 0;
  /// Return of autograd.
  double backward_s = 0;
  /// End of the wait for the last collective.
  double combined_s = 0;
  double applied_s = 0;
  double end_s = 0;
  /// Stretches in which the rank communicated, or applied the optimizer, within another phase. In order; they
  /// do not overlap.
  std::vector<Stretch> communicating;
  std::vector<Stretch> applying;
  /// In order of issue, which is the same on all ranks.
  std::vector<CollectiveStamp> collectives;
  ProcessorTimes processor = {};
  /// Of a recorded step, whose phases are read rather than stamped: all of it, in order and without a gap.
  /// The ends above, and `communicating` and `applying`, are empty then.
  std::vector<PhaseStretch> phases = {};

  LOCKSTEP_DESCRIBE(kOptional, begin_s, earlier_input_s, earlier_forward_s, earlier_backward_s,
                    earlier_communicating_s, input_s, forward_s, backward_s, combined_s, applied_s, end_s,
                    communicating, applying, collectives, processor)

  /// Begin of the last micro-batch.
  double last_micro_batch_s() const {
    return begin_s + earlier_input_s + earlier_forward_s + earlier_backward_s + earlier_communicating_s;
  }
  /// Adds the micro-batch from `began_s` to backward_s to the earlier ones.
  void add_earlier_micro_batch(double began_s);
};

/// The phases of a step's last micro-batch, in order and without a gap from its begin to the end of the step,
/// preceded by the communication of earlier micro-batches; of a recorded step, `phases`. A phase is cut where
/// the rank communicated (kExposed) or applied the optimizer (kOptimizer) in it. `alone`: the rank is the
/// only one, so the strategy's work between backward and optimizer is kOther.
std::vector<PhaseStretch> phase_stretches(const StepStamps& step, bool alone);

/// A kernel or a copy that a rank's device carried out, in seconds on that host's steady clock.
struct KernelSpan {
  std::string name;
  double begin_s = 0;
  double end_s = 0;
  /// The stream that it ran in.
  int64_t queue = 0;
};

/// All steps of one rank.
struct RankStamps {
  std::vector<StepStamps> steps;
  /// This rank's clock minus rank 0's, and the largest error of that.
  double clock_offset_s = 0;
  double clock_error_s = 0;
  /// In order of begin; empty if the device was not recorded.
  std::vector<KernelSpan> kernels = {};

  /// Without the kernels, which stay where they were recorded.
  LOCKSTEP_DESCRIBE(kOptional, steps, clock_offset_s, clock_error_s)
};

/// The phases of a step, in seconds per step; docs/measuring.md defines each.
struct PhaseTimes {
  double input_s = 0;
  double forward_s = 0;
  /// Until the last gradient is final.
  double backward_s = 0;
  /// Exposed communication, split into waiting for other ranks and transfer.
  double waiting_s = 0;
  double transfer_s = 0;
  double optimizer_s = 0;
  /// The step minus all of these.
  double other_s = 0;
  double step_s = 0;

  LOCKSTEP_DESCRIBE(kRequired, input_s, forward_s, backward_s, waiting_s, transfer_s, optimizer_s, other_s,
                    step_s)

  double exposed_s() const { return waiting_s + transfer_s; }
  void add(const PhaseTimes& times, double weight);
};

/// The phases of every step of a rank, each list in order of the steps.
struct PhaseSeries {
  std::vector<double> input_s, forward_s, backward_s, waiting_s, transfer_s, optimizer_s, other_s, step_s;

  LOCKSTEP_DESCRIBE(kOptional, input_s, forward_s, backward_s, waiting_s, transfer_s, optimizer_s, other_s,
                    step_s)

  void add(const PhaseTimes& times);
};

/// One bucket (one collective) of a step; seconds after the step's begin, means over the steps.
struct BucketTimes {
  int64_t bytes = 0;
  /// Its last gradient is final, and it is issued.
  double ready_s = 0;
  /// The collectives before it in its lane are complete.
  double started_s = 0;
  /// The last rank has issued it.
  double all_arrived_s = 0;
  double ended_s = 0;
  /// Its transfer that nothing hid: from the arrival of all ranks to the end, as far as it was exposed.
  double exposed_s = 0;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("bytes", self.bytes);
    LOCKSTEP_FIELDS(kRequired, ready_s, started_s, all_arrived_s, ended_s);
    LOCKSTEP_FIELDS(kOptional, exposed_s);
  }
};

struct RankBreakdown {
  PhaseTimes mean;
  /// Empty in files of before there were any.
  PhaseSeries series = {};
  ProcessorTimes processor = {};
  std::vector<BucketTimes> buckets;
  double clock_offset_s = 0;
  double clock_error_s = 0;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("phases", self.mean, kRequired);
    LOCKSTEP_FIELDS(kOptional, clock_offset_s, clock_error_s);
    fields("buckets", self.buckets, kRequired);
    fields("steps", self.series);
    LOCKSTEP_FIELDS(kOptional, processor);
  }
};

/// Findings of a breakdown run, which has the same settings as the throughput run that it explains.
struct Breakdown {
  int steps = 0;
  /// Means over ranks and steps.
  PhaseTimes mean;
  /// Half the width of the 95 % interval of mean.waiting_s and mean.transfer_s; empty if the steps do not
  /// allow one. With ranks on several hosts, plus the bound on the error of their clocks' offsets
  /// (RankStamps::clock_error_s of a rank and of those that it waits for).
  std::optional<double> waiting_half_width_s;
  std::optional<double> transfer_half_width_s;
  std::vector<RankBreakdown> ranks;
  /// Time in which any collective was running, hidden or not; mean over ranks and steps.
  double communication_s = 0;
  /// The rank that the others waited for, if one stands out.
  std::optional<int> straggler;

  /// The share of communication hidden behind other work, 1 - exposed / total, at least 0; empty without
  /// communication.
  std::optional<double> overlap() const;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("steps", self.steps);
    fields("phases", self.mean, kRequired);
    LOCKSTEP_FIELDS(kOptional, waiting_half_width_s, transfer_half_width_s, communication_s, straggler);
    fields("ranks", self.ranks, kRequired);
  }
};

/// Splits the steps of all ranks into phases. All ranks have the same number of steps (Error otherwise);
/// every phase is cut at stamps of one clock, so the phases of a rank sum to its step exactly.
///
/// Exposed communication begins when the last gradient is final (the last collective was issued, or autograd
/// returned, whichever is first) and ends with the wait for the last collective; `communicating` stretches
/// elsewhere are added, and the optimizer's work within is not part of it. Waiting is the time by which it
/// would be shorter if every rank had issued each collective when this one did; transfer is the rest. The
/// clocks of other hosts are corrected by their offsets. One rank alone has none. A rank stands out as
/// straggler when it is the last to issue the collective of a step that was waited for longest in at least
/// three quarters of the steps, and makes the others wait for at least 2 % of the step. `job_ranks`: where
/// only some ranks were stamped, the number that communicated; a rank that stands for several has transfer,
/// and no waiting that is known.
Breakdown break_down(const std::vector<RankStamps>& ranks, size_t job_ranks = 0);

/// The same times in order, without overlaps; gaps of at most `gap_s` are closed.
std::vector<Stretch> merged(std::vector<Stretch> stretches, double gap_s = 0);

/// Times of `stretches` that are in none of `others`; both as merged() returns them.
std::vector<Stretch> without(const std::vector<Stretch>& stretches, const std::vector<Stretch>& others);

/// Parts of `stretches`, as merged() returns them, between `begin_s` and `end_s`.
std::vector<Stretch> within(const std::vector<Stretch>& stretches, double begin_s, double end_s);

/// Sum of the lengths.
double total_s(const std::vector<Stretch>& stretches);

}  // namespace lockstep::measure
