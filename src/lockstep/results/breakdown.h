#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/measure/phases.h"

namespace lockstep::results {

using measure::Breakdown;
using measure::BucketTimes;
using measure::PhaseTimes;
using measure::RankBreakdown;

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
