#include "lockstep/measure/series.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/distributions.h"

namespace lockstep::measure {

void require_step_times(std::span<const double> step_s) {
  for (size_t i = 0; i < step_s.size(); ++i) {
    if (std::isfinite(step_s[i]) && step_s[i] >= 0) continue;
    throw Error(
        fmt::format("step {} of {} has the time {} s", i, step_s.size(), step_s[i]),
        "A step time is a finite number of seconds, not below zero; look at where the samples come from.");
  }
}

double logarithm(double step_s) {
  // A coarse clock yields 0, which has no logarithm.
  constexpr double kShortest = 1e-9;
  return std::log(std::max(step_s, kShortest));
}

std::vector<double> logarithms(std::span<const double> step_s) {
  std::vector<double> logs(step_s.size());
  std::transform(step_s.begin(), step_s.end(), logs.begin(), logarithm);
  return logs;
}

std::vector<double> sorted_copy(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double value_at_place(std::span<const double> sorted, double place) {
  const double last = static_cast<double>(sorted.size() - 1);
  const double clamped = std::clamp(place, 0.0, last);
  const auto below = static_cast<size_t>(clamped);
  if (below + 1 >= sorted.size()) return sorted.back();
  return std::lerp(sorted[below], sorted[below + 1], clamped - static_cast<double>(below));
}

double median_of(std::span<const double> values) {
  if (values.empty()) return 0;
  std::vector<double> copy(values.begin(), values.end());
  // Two halves are enough: a full sort costs several times as much.
  const auto middle = copy.begin() + static_cast<std::ptrdiff_t>(copy.size() / 2);
  std::nth_element(copy.begin(), middle, copy.end());
  if (copy.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(copy.begin(), middle));
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double squared_deviations(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

RobustScale robust_scale(std::span<const double> values) {
  // For normal values: 1 / 0.6745, and sqrt(pi / 2) for the mean deviation.
  constexpr double kMedianToDeviation = 1.4826;
  constexpr double kMeanToDeviation = 1.2533;
  RobustScale scale;
  scale.median = median_of(values);
  std::vector<double> distances(values.size());
  std::transform(values.begin(), values.end(), distances.begin(),
                 [&](double value) { return std::abs(value - scale.median); });
  scale.deviation = kMedianToDeviation * median_of(distances);
  // Half of the values are equal.
  if (scale.deviation <= 0) scale.deviation = kMeanToDeviation * mean_of(distances);
  return scale;
}

std::vector<double> normal_scores(std::span<const double> values) {
  const size_t n = values.size();
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> scores(n);
  for (size_t first = 0; first < n;) {
    size_t end = first + 1;
    // Ties share the mean of their ranks, counted from 1/2 to n - 1/2.
    while (end < n && values[order[end]] == values[order[first]]) ++end;
    const double mean_rank = 0.5 * static_cast<double>(first + end - 1) + 0.5;
    const double score = normal_quantile(mean_rank / static_cast<double>(n));
    for (size_t i = first; i < end; ++i) scores[order[i]] = score;
    first = end;
  }
  return scores;
}

}  // namespace lockstep::measure
