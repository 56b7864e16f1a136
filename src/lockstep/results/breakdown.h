#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::results {

/// Where the time of a step goes; docs/measuring.md defines each phase. Seconds per step.
struct PhaseTimes {
  double input_s = 0;
  double forward_s = 0;
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
  /// Its last gradient was final; the collective was issued; every rank had arrived; it was complete.
  double ready_s = 0;
  double started_s = 0;
  double all_arrived_s = 0;
  double ended_s = 0;
};

struct RankBreakdown {
  PhaseTimes mean;
  std::vector<BucketTimes> buckets;
  /// This rank's clock minus rank 0's, and how wrong that may be.
  double clock_offset_s = 0;
  double clock_error_s = 0;
};

/// Of a run of its own with the same settings as the throughput run that it explains.
struct Breakdown {
  int steps = 0;
  /// Means over ranks and steps.
  PhaseTimes mean;
  std::vector<RankBreakdown> ranks;
  /// Time that collectives took from start to end, hidden or not.
  double communication_s = 0;
  /// The rank that the others waited for most, where one stands out.
  std::optional<int> straggler;

  /// The share of communication that was hidden behind the backward pass, 1 - exposed / total.
  std::optional<double> overlap() const {
    if (communication_s <= 0) return std::nullopt;
    return 1 - mean.exposed_s() / communication_s;
  }
};

/// A 95 % interval, or the reason why there is none ("not enough data").
struct Interval {
  double low = 0;
  double high = 0;
  std::string missing;
};

/// Why efficiency is what it is: factors whose product is the efficiency (docs/measuring.md).
struct EfficiencyFactors {
  double machine = 1;
  double strategy = 1;
  double transfer = 1;
  double stragglers = 1;
};

/// What a run used beside time.
struct Resources {
  /// Highest resident memory of each rank.
  std::vector<int64_t> peak_memory_bytes;
  /// Processor seconds of all ranks per second, and per core that they had.
  std::optional<double> processor_utilisation;
  /// Processor time that others used on the ranks' cores, as a share.
  std::optional<double> other_load;
  std::optional<double> mean_frequency_mhz;
};

}  // namespace lockstep::results
