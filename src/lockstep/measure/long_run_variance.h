#pragma once

#include <span>

namespace lockstep::measure {

/// The variance of sums of neighboring values of a series: n * var(mean) for large n. For independent values
/// it is their variance; correlation makes it larger.
struct LongRunVariance {
  /// Zero for a constant series.
  double value = 0;
  /// The plain variance of single values.
  double single = 0;
  /// Correlation of neighbors, corrected for the bias of short series.
  double lag_one = 0;
  /// Certainty of `value`, as the degrees of freedom of a t distribution. Few if the series is short or
  /// strongly correlated, so that an interval built with them widens by itself.
  double degrees = 0;

  /// 1 + 2 * sum of the autocorrelations: the number of steps that tell as much as one independent step.
  double integrated_time() const { return single > 0 ? value / single : 1.0; }
};

/// By prewhitening with a first-order autoregression whose coefficient is corrected for bias (Andrews and
/// Monahan 1992; Kendall 1954) and the mean square of the first cosine transforms of the residuals
/// (equal-weighted cosines: Lazarus, Lewis, Stock and Watson 2018). Needs at
/// least 8 values; O(n * min(n^(2/3), 64)).
LongRunVariance long_run_variance(std::span<const double> values);

/// The same for the indicator of lying below `level` (1 below, 1/2 on it, 0 above), the variance of a sample
/// quantile's rank. The indicator is split into the part that follows the series' normal scores
/// and the rest, each prewhitened by its own coefficient, since the correlation of an indicator decays
/// differently from that of its series. `lag_one` and `degrees` are those of the scores.
LongRunVariance indicator_long_run_variance(std::span<const double> values, double level);

/// Lag-one autocorrelation around the mean, corrected for the bias of short series; in [-0.98, 0.98].
/// `fitted`: the number of coefficients already taken out of the series (1 for a mean, 2 for two levels or a
/// line); each adds bias.
double corrected_lag_one(std::span<const double> values, int fitted = 1);

}  // namespace lockstep::measure
