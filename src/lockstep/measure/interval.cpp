#include "lockstep/measure/interval.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include <fmt/core.h>

#include "lockstep/measure/series.h"
#include "lockstep/measure/stopping.h"

namespace lockstep::measure {
namespace {

constexpr double kMaxLagOne = 0.98;
constexpr int kMaxCosines = 64;
constexpr double kCosinesFactor = 0.8;

/// Whether a sum of squares around the mean is nothing but the rounding errors of a constant series.
bool only_rounding(double sum_of_squares, double n, double mean) {
  constexpr double kRounding = 1e-13;
  return sum_of_squares <= n * kRounding * kRounding * mean * mean;
}

/// The mean square of the first `count` cosine transforms.
double low_frequency_power(std::span<const double> values, int count) {
  // cos(angle * (i + 1/2)) for i = 0, 1, ... by Chebyshev's recurrence. Its steps depend on one another, so
  // several frequencies are computed side by side.
  constexpr int kTogether = 8;
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (int first = 1; first <= count; first += kTogether) {
    std::array<double, kTogether> twice{};
    std::array<double, kTogether> previous{};
    std::array<double, kTogether> current{};
    std::array<double, kTogether> transform{};
    for (int k = 0; k < kTogether; ++k) {
      const double angle = std::numbers::pi * (first + k) / n;
      twice[k] = 2 * std::cos(angle);
      previous[k] = current[k] = std::cos(0.5 * angle);
    }
    for (const double value : values) {
      for (int k = 0; k < kTogether; ++k) {
        transform[k] += value * current[k];
        const double next = twice[k] * current[k] - previous[k];
        previous[k] = current[k];
        current[k] = next;
      }
    }
    for (int k = 0; k < kTogether && first + k <= count; ++k) sum += transform[k] * transform[k];
  }
  return sum * 2 / (n * count);
}

/// The series with each value's share of its predecessor taken out, scaled so that its long-run variance
/// stays that of the series.
std::vector<double> whitened(std::span<const double> values, double lag_one) {
  const double mean = mean_of(values);
  std::vector<double> result(values.size() - 1);
  for (size_t i = 1; i < values.size(); ++i) {
    result[i - 1] = ((values[i] - mean) - lag_one * (values[i - 1] - mean)) / (1 - lag_one);
  }
  return result;
}

double single_variance(std::span<const double> values) {
  const double sum = squared_deviations(values);
  if (only_rounding(sum, static_cast<double>(values.size()), mean_of(values))) return 0;
  return sum / static_cast<double>(values.size() - 1);
}

int cosines_for(size_t n) {
  const double wanted = kCosinesFactor * std::pow(static_cast<double>(n), 2.0 / 3);
  return static_cast<int>(std::clamp(wanted, 2.0, double{kMaxCosines}));
}

void estimate(LongRunVariance& result, std::span<const double> white, double n) {
  const int count = cosines_for(white.size() + 1);
  // The coefficient's variance is (1 - phi^2) / n. It reaches 1 / (1 - phi)^2 as a relative bias of three
  // times, and as a relative variance of four times this quantity; a relative variance of 2 / degrees is that
  // of a mean square. Half of the bias is taken out: by trial the best at small n.
  const double uncertainty = (1 + result.lag_one) / (n * (1 - result.lag_one));
  result.value = result.single > 0 ? low_frequency_power(white, count) / (1 + 1.5 * uncertainty) : 0;
  result.degrees = 1 / (1.0 / count + 2 * uncertainty);
}

/// Fewest degrees of freedom of an interval. With fewer, a t interval is many times wider than the scatter of
/// the samples, and its coverage is unproven.
constexpr double kFewestDegrees = 2.5;

Estimate not_enough(double value) {
  return {.value = value, .reason_text = "not enough data"};
}

/// Whether the series must not have an interval; sets the reason if so.
bool refused(Estimate& estimate, std::span<const double> step_s, const IntervalOptions& options) {
  if (step_s.size() < kMinForDiagnosis) {
    estimate = not_enough(estimate.value);
    return true;
  }
  if (options.check_settled) estimate.reason_text = diagnose(step_s).unsettled_reason();
  return !estimate.reason_text.empty();
}

/// An interval without width (all steps alike) has the share 0, whatever the value.
void set_interval(Estimate& estimate, double lower, double upper) {
  Interval interval{lower, upper, 0};
  interval.half_width_share =
      estimate.value > 0 ? 0.5 * (upper - lower) / estimate.value : std::numeric_limits<double>::infinity();
  if (upper <= lower) interval.half_width_share = 0;
  estimate.interval = interval;
}

/// The t beyond which the given confidence leaves half of the rest on each side.
double critical_t(double confidence, double degrees) {
  return student_t_quantile(0.5 + 0.5 * confidence, degrees);
}

/// The inverse of Hall's cubic transformation (1992), which makes a skewed t statistic symmetric; `skewness`
/// is that of the mean.
double hall_inverse(double t, double skewness) {
  if (std::abs(skewness) < 1e-9) return t;
  return 3 / skewness * (std::cbrt(1 + skewness * (t - skewness / 6)) - 1);
}

template <typename PerLaunch, typename OneLaunch>
Estimate over_launches(const std::vector<std::vector<double>>& launches, const IntervalOptions& options,
                       const PerLaunch& per_launch, const OneLaunch& one_launch) {
  std::vector<double> logs;
  const std::vector<double>* last = nullptr;
  for (const auto& launch : launches) {
    if (launch.empty()) continue;
    require_step_times(launch);
    logs.push_back(logarithm(per_launch(launch)));
    last = &launch;
  }
  if (logs.empty()) return not_enough(0);
  if (logs.size() == 1) return one_launch(*last);
  const auto count = static_cast<double>(logs.size());
  const double mean = mean_of(logs);
  Estimate estimate;
  estimate.value = std::exp(mean);
  estimate.degrees = count - 1;
  if (logs.size() < kFewestLaunches) {
    estimate.reason_text = kFewLaunchesText;
    return estimate;
  }
  // A t interval on the logarithms, so that the ends are ratios to the geometric mean.
  const double half = critical_t(options.confidence, estimate.degrees) *
                      std::sqrt(squared_deviations(logs) / (count - 1) / count);
  set_interval(estimate, std::exp(mean - half), std::exp(mean + half));
  return estimate;
}

}  // namespace

double corrected_lag_one(std::span<const double> values, int fitted) {
  const auto n = static_cast<double>(values.size());
  const double mean = mean_of(values);
  double square = 0;
  double product = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double here = values[i] - mean;
    square += here * here;
    if (i > 0) product += here * (values[i - 1] - mean);
  }
  if (only_rounding(square, n, mean)) return 0;
  // E[r] = phi - (fitted + (1 + 2 * fitted) * phi) / n to first order.
  const double r = product / square;
  return std::clamp((n * r + fitted) / (n - 1 - 2 * fitted), -kMaxLagOne, kMaxLagOne);
}

LongRunVariance long_run_variance(std::span<const double> values) {
  LongRunVariance result;
  result.lag_one = corrected_lag_one(values);
  result.single = single_variance(values);
  estimate(result, whitened(values, result.lag_one), static_cast<double>(values.size()));
  return result;
}

LongRunVariance indicator_long_run_variance(std::span<const double> values, double level) {
  const size_t n = values.size();
  std::vector<double> indicator(n);
  std::transform(values.begin(), values.end(), indicator.begin(), [&](double value) {
    return value < level ? 1.0 : value > level ? 0.0 : 0.5;
  });
  const std::vector<double> scores = normal_scores(values);
  const double mean = mean_of(indicator);
  double product = 0;
  double square = 0;
  for (size_t i = 0; i < n; ++i) {
    product += (indicator[i] - mean) * scores[i];
    square += scores[i] * scores[i];
  }
  const double slope = square > 0 ? product / square : 0;
  std::vector<double> rest(n);
  std::vector<double> followed(n);
  for (size_t i = 0; i < n; ++i) {
    followed[i] = slope * scores[i];
    rest[i] = indicator[i] - mean - followed[i];
  }

  LongRunVariance result;
  result.lag_one = corrected_lag_one(scores);
  result.single = single_variance(indicator);
  std::vector<double> white = whitened(followed, result.lag_one);
  const std::vector<double> white_rest = whitened(rest, corrected_lag_one(rest, 2));
  std::transform(white.begin(), white.end(), white_rest.begin(), white.begin(), std::plus<>());
  estimate(result, white, static_cast<double>(n));
  return result;
}

Estimate quantile_estimate(std::span<const double> step_s, double share, const IntervalOptions& options) {
  if (step_s.empty()) return not_enough(0);
  require_step_times(step_s);
  const std::vector<double> sorted = sorted_copy(step_s);
  Estimate estimate;
  estimate.value = percentile_of_sorted(sorted, 100 * share);
  if (refused(estimate, step_s, options)) return estimate;

  const LongRunVariance ranks = indicator_long_run_variance(step_s, estimate.value);
  const auto n = static_cast<double>(step_s.size());
  if (ranks.degrees < kFewestDegrees) return not_enough(estimate.value);
  // The rank of the quantile among n steps has the variance n * ranks.value: that far out in the sorted steps
  // lie the ends of the interval.
  const double reach = critical_t(options.confidence, ranks.degrees) * std::sqrt(n * ranks.value);
  const double place = (n - 1) * share;
  if (place - reach < -0.5 || place + reach > n - 0.5) return not_enough(estimate.value);
  estimate.degrees = ranks.degrees;
  set_interval(estimate, value_at_place(sorted, place - reach), value_at_place(sorted, place + reach));
  return estimate;
}

Estimate mean_estimate(std::span<const double> step_s, const IntervalOptions& options) {
  if (step_s.empty()) return not_enough(0);
  require_step_times(step_s);
  Estimate estimate;
  estimate.value = mean_of(step_s);
  if (refused(estimate, step_s, options)) return estimate;

  const LongRunVariance spread = long_run_variance(step_s);
  if (spread.degrees < kFewestDegrees) return not_enough(estimate.value);
  const auto n = static_cast<double>(step_s.size());
  estimate.degrees = spread.degrees;
  if (spread.value <= 0) {
    set_interval(estimate, estimate.value, estimate.value);
    return estimate;
  }
  double cube = 0;
  for (const double step : step_s) cube += std::pow(step - estimate.value, 3);
  cube /= n;
  const double time = spread.integrated_time();
  const double skewness = cube * time * time / (std::pow(spread.value, 1.5) * std::sqrt(n));
  const double error = std::sqrt(spread.value / n);
  const double t = critical_t(options.confidence, spread.degrees);
  set_interval(estimate, std::max(0.0, estimate.value - error * hall_inverse(t, skewness)),
               estimate.value - error * hall_inverse(-t, skewness));
  return estimate;
}

Estimate quantile_estimate(const std::vector<std::vector<double>>& launches, double share,
                           const IntervalOptions& options) {
  return over_launches(
      launches, options, [&](const auto& launch) { return percentile(launch, 100 * share); },
      [&](const auto& launch) { return quantile_estimate(std::span<const double>(launch), share, options); });
}

Estimate mean_estimate(const std::vector<std::vector<double>>& launches, const IntervalOptions& options) {
  return over_launches(
      launches, options, [](const auto& launch) { return mean_of(launch); },
      [&](const auto& launch) { return mean_estimate(std::span<const double>(launch), options); });
}

std::optional<Interval> ratio_interval(const Bounded& above, const Bounded& below) {
  for (const Bounded& side : {above, below}) {
    for (const double number : {side.value, side.lower, side.upper}) {
      if (!(number > 0) || !std::isfinite(number)) return std::nullopt;
    }
  }
  // Clamp: a mean over launches may lie outside its interval.
  const auto reach = [](double from, double to) { return std::max(0.0, std::log(to / from)); };
  const double ratio = above.value / below.value;
  const double down = std::hypot(reach(above.lower, above.value), reach(below.value, below.upper));
  const double up = std::hypot(reach(above.value, above.upper), reach(below.lower, below.value));
  Interval interval{ratio * std::exp(-down), ratio * std::exp(up), 0};
  interval.half_width_share = 0.5 * (interval.upper - interval.lower) / ratio;
  return interval;
}

}  // namespace lockstep::measure
