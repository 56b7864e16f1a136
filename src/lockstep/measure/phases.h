#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::measure {

/// Issue and completion of one collective on one rank, in seconds on that host's steady clock.
struct CollectiveStamp {
  int64_t bytes = 0;
  double issued_s = 0;
  double ended_s = 0;
  /// Collectives of one lane run one after the other, those of different lanes at the same time.
  int lane = 0;
};

/// The time at which the turn of collective `index` came: it was issued, and its lane had finished all
/// before.
double turn_s(const std::vector<CollectiveStamp>& collectives, size_t index);

/// Ends of the phases of one step on one rank, in seconds on that host's steady clock. `begin_s` is the end
/// of the step before.
struct StepStamps {
  double begin_s = 0;
  /// With accumulation over several micro-batches, the time that the phases of all but the last took. The
  /// ends below belong to the last one.
  double earlier_input_s = 0;
  double earlier_forward_s = 0;
  double earlier_backward_s = 0;
  double input_s = 0;
  double forward_s = 0;
  /// autograd returned.
  double backward_s = 0;
  /// The wait for the last collective was over.
  double combined_s = 0;
  double applied_s = 0;
  double end_s = 0;
  /// In order of issue, which is the same on all ranks.
  std::vector<CollectiveStamp> collectives;

  /// Begin of the last micro-batch.
  double last_micro_batch_s() const {
    return begin_s + earlier_input_s + earlier_forward_s + earlier_backward_s;
  }
};

/// The time at which the last gradient of a step was final: the last collective was issued, or autograd
/// returned, whichever came first.
double gradients_final_s(const StepStamps& step);

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

  double exposed_s() const { return waiting_s + transfer_s; }
};

/// One bucket (one collective) of a step; seconds after the step's begin, means over the steps.
struct BucketTimes {
  int64_t bytes = 0;
  /// Its last gradient was final and it was issued.
  double ready_s = 0;
  /// The collectives before it (in its lane) were complete, so its own turn came.
  double started_s = 0;
  /// The last rank had issued it.
  double all_arrived_s = 0;
  double ended_s = 0;
};

struct RankBreakdown {
  PhaseTimes mean;
  std::vector<BucketTimes> buckets;
  double clock_offset_s = 0;
  double clock_error_s = 0;
};

/// Findings of a breakdown run, which has the same settings as the throughput run that it explains.
struct Breakdown {
  int steps = 0;
  /// Means over ranks and steps.
  PhaseTimes mean;
  /// Half the width of the 95 % interval of mean.waiting_s and mean.transfer_s; empty if the steps do not
  /// allow one.
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
};

/// Splits the steps of all ranks into phases. All ranks have the same number of steps (Error otherwise);
/// every phase is cut at stamps of one clock, so the phases of a rank sum to its step exactly.
///
/// Exposed communication begins when the last gradient is final (the last collective was issued, or autograd
/// returned, whichever is first) and ends with the wait for the last collective. It is waiting as long as a
/// collective that this rank has issued has not been issued by every rank, and transfer otherwise; the clocks
/// of other hosts are corrected by their offsets. A rank stands out as straggler when it is the last to issue
/// a step's last collective in at least three quarters of the steps and makes the others wait for at least 2
/// % of the step.
Breakdown break_down(const std::vector<RankStamps>& ranks);

}  // namespace lockstep::measure
