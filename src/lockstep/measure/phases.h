#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::measure {

/// When one collective was issued and when it was complete on one rank, in seconds on that host's steady
/// clock.
struct CollectiveStamp {
  int64_t bytes = 0;
  double issued_s = 0;
  double ended_s = 0;
  /// Those of one lane are carried out one after the other, those of several at the same time.
  int lane = 0;
};

/// When the turn of collective `index` came: it was issued, and what its lane had to do before was done.
double turn_s(const std::vector<CollectiveStamp>& collectives, size_t index);

/// When the phases of one step ended on one rank, in seconds on that host's steady clock. `begin_s` is the
/// end of the step before.
struct StepStamps {
  double begin_s = 0;
  /// Where gradients of several micro-batches are accumulated: what the phases of those before the last took.
  /// The ends of phases below are the last one's.
  double earlier_input_s = 0;
  double earlier_forward_s = 0;
  double earlier_backward_s = 0;
  double input_s = 0;
  double forward_s = 0;
  /// autograd returned.
  double backward_s = 0;
  /// The last collective was waited for.
  double combined_s = 0;
  double applied_s = 0;
  double end_s = 0;
  /// In the order in which they were issued, which is the same on all ranks.
  std::vector<CollectiveStamp> collectives;

  /// When the last micro-batch began.
  double last_micro_batch_s() const {
    return begin_s + earlier_input_s + earlier_forward_s + earlier_backward_s;
  }
};

/// When the last gradient of a step was final: the last collective was issued, or autograd returned,
/// whichever is first.
double gradients_final_s(const StepStamps& step);

/// A kernel or a copy that a rank's device carried out, in seconds on that host's steady clock.
struct KernelSpan {
  std::string name;
  double begin_s = 0;
  double end_s = 0;
  /// The stream that it was in.
  int64_t queue = 0;
};

/// All steps of one rank.
struct RankStamps {
  std::vector<StepStamps> steps;
  /// This rank's clock minus rank 0's, and how wrong that may be.
  double clock_offset_s = 0;
  double clock_error_s = 0;
  /// In the order of beginning; empty where nobody asked the device.
  std::vector<KernelSpan> kernels = {};
};

/// Where the time of a step goes; docs/measuring.md defines each phase. Seconds per step.
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
  /// Its last gradient was final, which is when it was issued.
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

/// Of a run of its own with the same settings as the throughput run that it explains.
struct Breakdown {
  int steps = 0;
  /// Means over ranks and steps.
  PhaseTimes mean;
  /// Half the width of the 95 % interval of mean.waiting_s and mean.transfer_s; empty where the steps do not
  /// allow one.
  std::optional<double> waiting_half_width_s;
  std::optional<double> transfer_half_width_s;
  std::vector<RankBreakdown> ranks;
  /// Time in which any collective was carried out, hidden or not; mean over ranks and steps.
  double communication_s = 0;
  /// The rank that the others waited for, where one stands out.
  std::optional<int> straggler;

  /// The share of communication that was hidden behind other work, 1 - exposed / total, at least 0; empty
  /// where nothing was communicated.
  std::optional<double> overlap() const;
};

/// Splits the steps of all ranks into phases. All ranks have the same number of steps (Error otherwise);
/// every phase is cut at stamps of one clock, so the phases of a rank sum to its step exactly.
///
/// Exposed communication begins when the last gradient is final (the last collective was issued, or autograd
/// returned, whichever is first) and ends when the last collective was waited for. It is waiting as long as a
/// collective that this rank has issued has not been issued by every rank, and transfer otherwise; the clocks
/// of other hosts are corrected by their offsets. A rank stands out as straggler when it is the last to issue
/// a step's last collective in at least three quarters of the steps and makes the others wait for at least 2
/// % of the step.
Breakdown break_down(const std::vector<RankStamps>& ranks);

}  // namespace lockstep::measure
