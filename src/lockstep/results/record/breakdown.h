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

/// A 95 % interval in the unit of what it is about, or the reason why there is none ("not enough data").
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

  /// Half the width of each factor's 95 % interval; empty where one of the times behind it has none.
  struct HalfWidths {
    std::optional<double> machine, strategy, transfer, stragglers;
  } half_width;
};

/// What a run used beside time.
struct Resources {
  /// Highest resident memory of each rank.
  std::vector<int64_t> peak_memory_bytes;
  /// Highest memory that each rank held on its device; empty on a CPU.
  std::vector<int64_t> peak_device_memory_bytes;
  /// Processor seconds of all ranks per second, and per core that they had.
  std::optional<double> processor_utilisation;
  /// Of that, what the communicators' own threads used.
  std::optional<double> communication_threads;
  /// Processor time that others used on the cores of the ranks' hosts, per second and core.
  std::optional<double> other_load;
  /// Of the ranks' cores, mean over the samples taken while it ran.
  std::optional<double> mean_frequency_mhz;
};

}  // namespace lockstep::results
