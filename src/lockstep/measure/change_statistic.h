#pragma once

#include <cstddef>
#include <span>

namespace lockstep::measure {

/// How strongly a series speaks for a change of its level, against first-order autocorrelated noise. The
/// statistics are squared t values of the change in a regression with autocorrelated errors (Cochrane and
/// Orcutt 1949), so a wandering series is not taken for a change. They are divided by what the remaining
/// errors vary more in the long run than singly.
struct ChangeStatistic {
  double squared_t = 0;
  /// The first value of the new level; for a trend 0.
  size_t at = 0;
  /// The share of the variance that the change explains.
  double explained = 0;
};

/// The largest over all places that leave `margin` values on both sides (Andrews 1993). O(n).
ChangeStatistic level_shift_statistic(std::span<const double> values, size_t margin);

/// A straight line through the whole series.
ChangeStatistic trend_statistic(std::span<const double> values);

}  // namespace lockstep::measure
