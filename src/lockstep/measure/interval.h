#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

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

/// The range in which a value lies with the given confidence, in units of the samples (seconds for step
/// times).
struct Interval {
  double lower = 0;
  double upper = 0;
  /// Half the width as a share of the point estimate that it belongs to.
  double half_width_share = 0;
};

/// Fewest launches of an interval over launches. The spread of three says too little of how much the next one
/// may differ: a t interval is several times as wide as they are apart.
inline constexpr size_t kFewestLaunches = 4;

/// Estimate::reason_text of fewer launches.
inline constexpr const char* kFewLaunchesText = "fewer than 4 launches";

/// A point estimate with its interval, or with the reason for the lack of one: a number that cannot be
/// trusted never comes with a confident interval.
struct Estimate {
  double value = 0;
  std::optional<Interval> interval;
  /// "not enough data", "fewer than 4 launches", "trend", "level shift at step 120"; empty with an interval.
  std::string reason_text;
  /// Degrees of freedom of the t distribution behind the interval.
  double degrees = 0;
};

struct IntervalOptions {
  double confidence = 0.95;
  /// Whether to refuse a series with a trend or a level shift; callers that checked it before turn it off.
  bool check_settled = true;
};

/// The `share` quantile (0.5: median) of one series of steps in the order in which they ran, steady state
/// only. The interval lies between two order statistics, whose distance follows from the long-run variance of
/// the indicator of lying below (after Heidelberger and Lewis 1984), so the shape of the distribution does
/// not matter.
Estimate quantile_estimate(std::span<const double> step_s, double share, const IntervalOptions& options = {});

/// The mean of one series, from its long-run variance; Hall's transformation (1992) corrects for skewness.
Estimate mean_estimate(std::span<const double> step_s, const IntervalOptions& options = {});

/// Over launches: launches[k] holds the steps of launch k, steady state only. The quantile (or mean) of each
/// launch is one sample, and a t interval with K - 1 degrees of freedom on the logarithms covers variation
/// from launch to launch; `value` is their geometric mean. With two or three launches there is no interval. A
/// single launch yields the estimate within it, which does not cover that variation. Empty launches are left
/// out; with none left there is not enough data.
Estimate quantile_estimate(const std::vector<std::vector<double>>& launches, double share,
                           const IntervalOptions& options = {});
Estimate mean_estimate(const std::vector<std::vector<double>>& launches, const IntervalOptions& options = {});

/// A positive value between the ends of its interval.
struct Bounded {
  double value = 0;
  double lower = 0;
  double upper = 0;
};

/// The interval of `above` / `below`, which are independent of each other and have intervals of one
/// confidence. MOVER, the method of variance estimates recovery (Zou and Donner 2008), on logarithms: with r
/// the ratio, the lower end is r * exp(-sqrt(ln(above / above.lower)^2 + ln(below.upper / below)^2)), and the
/// upper end likewise with the other two. It keeps the intervals' asymmetry and needs neither their variances
/// nor their degrees of freedom; where these are few it is a little wide. Empty unless all six are finite and
/// above 0.
std::optional<Interval> ratio_interval(const Bounded& above, const Bounded& below);

}  // namespace lockstep::measure
