#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace lockstep::measure {

/// A change from one level before `step` (0-based) to another from it on; medians, in the samples' unit.
struct LevelShift {
  size_t step = 0;
  double before = 0;
  double after = 0;
  /// Share of the variance that it explains.
  double explained = 0;
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
  /// A steady rise or fall: the change from the first to the last step as a share of the median; positive if
  /// steps become slower.
  std::optional<double> trend;
  std::optional<LevelShift> level_shift;
  Outliers outliers;

  /// "trend", or "level shift at step 240" with `first_step` added to the step; empty if the series is
  /// settled.
  std::string unsettled_reason(size_t first_step = 0) const;
  /// "level shift at step 120: from 10.0 ms to 12.0 ms (+20 %)"; several findings are joined by
  /// "; "; empty if there are none.
  std::string text() const;
};

/// The shortest series that is examined; a shorter one never has a trend or a level shift.
inline constexpr size_t kMinForDiagnosis = 16;

/// Examines steps in the order in which they ran. A trend or level shift is named when it is beyond
/// chance (about 1 settled series in 1,000 is named wrongly, also when neighbors are correlated) and moves
/// the level by at least kMaterialChange.
SeriesDiagnosis diagnose(std::span<const double> step_s);

/// Changes below this share of the median are ignored, however certain they are.
inline constexpr double kMaterialChange = 0.005;

}  // namespace lockstep::measure
