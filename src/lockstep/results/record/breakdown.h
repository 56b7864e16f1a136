#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>

#include "lockstep/base/fields.h"
#include "lockstep/measure/phases.h"

namespace lockstep::results {

using measure::Breakdown;
using measure::BucketTimes;
using measure::PhaseTimes;
using measure::RankBreakdown;

/// When a rank's bucket moves, in seconds after the begin of a step: from the arrival of the last rank to its
/// end, as far as that is in the step.
inline measure::Stretch moving(const RankBreakdown& rank, size_t bucket) {
  if (bucket >= rank.buckets.size()) return {};
  const BucketTimes& times = rank.buckets[bucket];
  return {std::min(std::max(times.started_s, times.all_arrived_s), rank.mean.step_s),
          std::min(times.ended_s, rank.mean.step_s)};
}

/// A 95 % interval in the unit of its quantity, or the reason why there is none ("not enough data").
struct Interval {
  double low = 0;
  double high = 0;
  std::string missing;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& interval) {
    if constexpr (std::is_const_v<Self>) {
      const bool known = interval.missing.empty();
      fields("low", known ? std::optional(interval.low) : std::nullopt);
      fields("high", known ? std::optional(interval.high) : std::nullopt);
      fields("missing", interval.missing, kNullable);
    } else {
      fields("missing", interval.missing);
      if (!interval.missing.empty()) return;
      fields("low", interval.low, kRequired);
      fields("high", interval.high, kRequired);
    }
  }
};

/// Factors whose product is the efficiency (docs/measuring.md).
struct EfficiencyFactors {
  double machine = 1;
  double strategy = 1;
  double transfer = 1;
  double stragglers = 1;

  /// Half the width of each factor's 95 % interval; empty where one of the times behind it has none.
  struct HalfWidths {
    std::optional<double> machine, strategy, transfer, stragglers;
  } half_width;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& factors) {
    const auto factor = [&](const char* key, auto& value, auto& half) {
      fields.group(
          key,
          [&](auto& inner) {
            inner("value", value, kRequired);
            inner("half_width", half);
          },
          kRequired);
    };
    factor("machine", factors.machine, factors.half_width.machine);
    factor("strategy", factors.strategy, factors.half_width.strategy);
    factor("transfer", factors.transfer, factors.half_width.transfer);
    factor("stragglers", factors.stragglers, factors.half_width.stragglers);
  }
};

}  // namespace lockstep::results
