#include "lockstep/measure/series.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/policies/policy.hpp>
#include <fmt/core.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"

// The only file that includes Boost: these headers take longer to read than the rest of the part.

namespace lockstep::measure {
namespace {

namespace policies = boost::math::policies;

/// Computes in double, which halves Boost's tables, and answers 0 and 1 with infinities instead of
/// exceptions: a probability rounds to 1 where an interval is asked for with a confidence close to it.
using Quiet =
    policies::policy<policies::promote_double<false>, policies::domain_error<policies::ignore_error>,
                     policies::overflow_error<policies::ignore_error>,
                     policies::evaluation_error<policies::ignore_error>>;
using Binomial = boost::math::binomial_distribution<double, Quiet>;
using Normal = boost::math::normal_distribution<double, Quiet>;
using StudentT = boost::math::students_t_distribution<double, Quiet>;

constexpr size_t kFewestSamples = 40;
constexpr double kLeastShare = 0.1;
constexpr double kLeastExplained = 0.8;
constexpr double kLeastRatio = 1.2;

/// A step that takes so many times as long as its neighbors is another kind of step.
constexpr double kLong = 1.3;
/// Neighbors on either side.
constexpr size_t kNeighbors = 5;
/// The share of the steps in their turn that must be long, and the fewest of them: two have some distance in
/// any case.
constexpr double kRegular = 0.6;
constexpr int kFewest = 3;
constexpr double kChance = 0.01;
/// Of a distance and its multiples, the longest that has this share of the time is the one.
constexpr double kSameSteps = 0.8;

/// The lower median of the steps around step i, of which every second one may be long.
double usual_s(const std::vector<double>& step_s, size_t i) {
  std::vector<double> around;
  for (size_t j = i - std::min(i, kNeighbors); j < std::min(step_s.size(), i + kNeighbors + 1); ++j) {
    if (j != i) around.push_back(step_s[j]);
  }
  const auto middle = around.begin() + (std::ssize(around) - 1) / 2;
  std::ranges::nth_element(around, middle);
  return *middle;
}

}  // namespace

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

double normal_quantile(double probability) {
  return boost::math::quantile(Normal(), probability);
}

double student_t_quantile(double probability, double degrees) {
  return boost::math::quantile(StudentT(degrees), probability);
}

double student_t_two_sided_p(double t, double degrees) {
  // Twice the lower tail: 1 minus the upper one would lose the digits of a small p.
  return 2 * boost::math::cdf(StudentT(degrees), -std::abs(t));
}

double binomial_upper_tail(int count, int trials, double probability) {
  return boost::math::cdf(boost::math::complement(Binomial(trials, probability), count - 1));
}

std::optional<TwoModes> two_modes(std::span<const double> samples) {
  const size_t count = samples.size();
  if (count < kFewestSamples) return std::nullopt;
  const std::vector<double> sorted = sorted_copy(samples);
  const std::vector<double> logs = logarithms(sorted);
  const double mean = mean_of(logs);
  const double total = squared_deviations(logs);
  if (!(total > 0)) return std::nullopt;
  const auto fewest = static_cast<size_t>(std::ceil(kLeastShare * static_cast<double>(count)));
  double sum = std::accumulate(logs.begin(), logs.begin() + static_cast<std::ptrdiff_t>(fewest), 0.0);
  size_t split = 0;
  double best = 0;
  for (size_t fast = fewest; fast <= count - fewest; sum += logs[fast++]) {
    // Variance between the groups: n1 (m1 - m)^2 + n2 (m2 - m)^2, with n1 (m1 - m) = -n2 (m2 - m).
    const double n = static_cast<double>(fast);
    const double pull = sum - n * mean;
    const double between = pull * pull * (1 / n + 1 / static_cast<double>(count - fast));
    if (between > best) best = between, split = fast;
  }
  if (best < kLeastExplained * total) return std::nullopt;
  const std::span<const double> all(sorted);
  const TwoModes found{median_of(all.first(split)), median_of(all.subspan(split)),
                       static_cast<double>(count - split) / static_cast<double>(count)};
  return found.slow >= kLeastRatio * found.fast ? std::optional(found) : std::nullopt;
}

std::optional<PeriodicSteps> find_periodic_steps(const std::vector<double>& step_s,
                                                 const std::vector<size_t>& numbers) {
  const size_t steps = step_s.size(), most_apart = steps / kFewest;
  std::vector<double> longer_s(steps, 0);
  // A training begins slowly.
  bool began = false;
  for (size_t i = 0; i < steps && most_apart > 1; ++i) {
    const double usual = usual_s(step_s, i);
    const bool is_long = step_s[i] >= kLong * usual;
    if (is_long && began) longer_s[i] = step_s[i] - usual;
    began = began || !is_long;
  }
  const auto all_long = static_cast<int>(steps) - static_cast<int>(std::ranges::count(longer_s, 0));
  std::optional<PeriodicSteps> best;
  double most_s = 0;
  // As many turns are looked at.
  const double limit = kChance / (static_cast<double>(most_apart * (most_apart + 1)) / 2);
  for (size_t apart = 2; apart <= most_apart; ++apart) {
    std::vector<int> in_turn(apart, 0), count(apart, 0);
    std::vector<double> sum_s(apart, 0);
    for (size_t i = 0; i < steps; ++i) {
      const size_t turn = numbers[i] % apart;
      ++in_turn[turn];
      count[turn] += longer_s[i] > 0 ? 1 : 0;
      sum_s[turn] += longer_s[i];
    }
    for (size_t turn = 0; turn < apart; ++turn) {
      if (count[turn] < kFewest || count[turn] < kRegular * in_turn[turn]) continue;
      // Chance makes as large a share of the other steps long, or one step more.
      const double share = (all_long - count[turn] + 1.0) / (static_cast<int>(steps) - in_turn[turn] + 1.0);
      const double chance = binomial_upper_tail(count[turn], in_turn[turn], std::min(1.0, share));
      if (chance >= limit || sum_s[turn] < kSameSteps * most_s) continue;
      most_s = std::max(most_s, sum_s[turn]);
      best = PeriodicSteps{apart, count[turn], sum_s[turn] / count[turn]};
    }
  }
  return best;
}

double percentile_of_sorted(std::span<const double> sorted, double p) {
  if (sorted.empty()) throw Error(fmt::format("p{} of no samples", p));
  if (!(p >= 0 && p <= 100)) throw Error(fmt::format("percentile {} is not between 0 and 100", p));
  return value_at_place(sorted, p / 100 * static_cast<double>(sorted.size() - 1));
}

double percentile(std::span<const double> samples, double p) {
  // A NaN compares with nothing and would leave the order, and so the result, to chance.
  if (std::ranges::any_of(samples, [](double sample) { return std::isnan(sample); })) {
    throw Error(fmt::format("p{} of {} samples, one of which is not a number", p, samples.size()));
  }
  return percentile_of_sorted(sorted_copy(samples), p);
}

int samples_needed(double p) {
  if (p <= 50) return 1;
  // 1 / (1 - 0.9) is a little over 10 in binary; the small amount keeps it from becoming 11.
  return static_cast<int>(std::ceil(100 / (100 - p) - 1e-9));
}

StepPercentiles step_percentiles(std::span<const double> step_s) {
  const auto supported = [&](double p) -> std::optional<double> {
    if (step_s.size() < static_cast<size_t>(samples_needed(p))) return std::nullopt;
    return percentile(step_s, p);
  };
  return {supported(50), supported(75), supported(90), supported(95), supported(99)};
}

StepPercentiles step_percentiles(const std::vector<std::vector<double>>& launches) {
  const auto mean = [&](double p) -> std::optional<double> {
    double logs = 0;
    int count = 0;
    for (const std::vector<double>& launch : launches) {
      if (launch.empty()) continue;
      if (launch.size() < static_cast<size_t>(samples_needed(p))) return std::nullopt;
      logs += std::log(percentile(launch, p));
      ++count;
    }
    if (count == 0) return std::nullopt;
    return std::exp(logs / count);
  };
  return {mean(50), mean(75), mean(90), mean(95), mean(99)};
}

}  // namespace lockstep::measure
