#include "lockstep/measure/long_run_variance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include "lockstep/measure/series.h"

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

}  // namespace lockstep::measure
