#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace lockstep::measure {

/// A steady rise or fall over the whole series.
struct Trend {
  /// Change from the first to the last step as a share of the median; positive: steps become slower.
  double change_share = 0;
  double p = 1;
};

/// A change from one level before `step` (0-based) to another from it on; medians, in the samples' unit.
struct LevelShift {
  size_t step = 0;
  double before = 0;
  double after = 0;
  double change_share() const { return after / before - 1; }
};

/// Values far from the rest: robust z beyond 5, each side measured by its own width.
struct Outliers {
  size_t count = 0;
  double share = 0;
  /// The slowest outlier as a multiple of the median (3.0: three times the median), and its step; both 0 if
  /// there is none.
  double largest_ratio = 0;
  size_t largest_step = 0;
};

/// Findings about a series of step times. At most one of `trend` and `level_shift` is set: the one that
/// explains the series better.
struct SeriesDiagnosis {
  size_t steps = 0;
  double median = 0;
  std::optional<Trend> trend;
  std::optional<LevelShift> level_shift;
  Outliers outliers;
  /// Corrected for the bias of short series, from ranks, so outliers do not hide it.
  double lag_one = 0;
  /// 1 + 2 * sum of the autocorrelations.
  double integrated_time = 1;
  double effective_steps = 0;

  bool settled() const { return !trend && !level_shift; }
  /// "level shift at step 120: from 10.0 ms to 12.0 ms (+20 %)"; several findings are joined by
  /// "; "; empty if there are none.
  std::string text() const;
};

/// The shortest series that is judged; none shorter ever has a trend or a level shift.
inline constexpr size_t kMinForDiagnosis = 16;

/// Examines steps in the order in which they ran. A trend or level shift is named when it is beyond
/// chance (about 1 settled series in 1,000 is named wrongly, also when neighbours are correlated) and moves
/// the level by at least kMaterialChange.
SeriesDiagnosis diagnose(std::span<const double> step_s);

/// Changes below this share of the median are ignored, however certain they are.
inline constexpr double kMaterialChange = 0.005;

}  // namespace lockstep::measure
