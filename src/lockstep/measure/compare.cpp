#include "lockstep/measure/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/core.h>

#include "lockstep/base/assert.h"
#include "lockstep/measure/series.h"

namespace lockstep::measure {
namespace {

/// Fewer pairs have a t interval several times as wide as the scatter of the pairs.
constexpr size_t kFirstLook = 4;
/// Chance that any look of a comparison errs.
constexpr double kErrorOfLooks = 0.05;

/// An estimate of a logarithm, with its squared standard error and degrees of freedom.
struct Located {
  double log = 0;
  double square_error = 0;
  double degrees = 0;
};

using Launches = std::vector<std::vector<double>>;

/// Fewer pairs cannot be certain enough by their ranks: 12 of one sign have a chance of 1 in 2,048.
constexpr size_t kRankedPairs = 12;

/// Leaves out launches that ended before their first steady step.
Launches without_empty(const Launches& launches) {
  Launches kept;
  for (const auto& launch : launches) {
    if (launch.empty()) continue;
    require_step_times(launch);
    kept.push_back(launch);
  }
  return kept;
}

std::vector<double> log_values(const Launches& launches, const std::optional<double>& quantile) {
  std::vector<double> logs;
  for (const auto& launch : launches)
    logs.push_back(logarithm(quantile ? percentile(launch, 100 * *quantile) : mean_of(launch)));
  return logs;
}

/// Mean of the launches' logarithms, with its standard error.
Located located(const std::vector<double>& logs) {
  const auto count = static_cast<double>(logs.size());
  return {.log = mean_of(logs),
          .square_error = squared_deviations(logs) / ((count - 1) * count),
          .degrees = count - 1};
}

/// Estimates from the intervals within the launches; empty, with the reason, if one has none.
std::optional<Located> located_within(const Launches& launches, const CompareOptions& options,
                                      std::string& reason) {
  Located result;
  double spread = 0;
  const auto count = static_cast<double>(launches.size());
  for (size_t i = 0; i < launches.size(); ++i) {
    const std::span<const double> launch(launches[i]);
    const IntervalOptions how{options.confidence, true};
    const Estimate estimate =
        options.quantile ? quantile_estimate(launch, *options.quantile, how) : mean_estimate(launch, how);
    if (!estimate.interval) {
      reason = launches.size() == 1 ? estimate.reason_text
                                    : fmt::format("{} in launch {}", estimate.reason_text, i + 1);
      return std::nullopt;
    }
    const double width = logarithm(estimate.interval->upper) - logarithm(estimate.interval->lower);
    const double error = 0.5 * width / student_t_quantile(0.5 + 0.5 * options.confidence, estimate.degrees);
    // Standard error of the mean of `count` launches, squared.
    const double square = error * error / (count * count);
    result.log += logarithm(estimate.value) / count;
    result.square_error += square;
    spread += square * square / estimate.degrees;
  }
  result.degrees = spread > 0 ? result.square_error * result.square_error / spread : 1e6;
  return result;
}

/// The difference, with the degrees of freedom of Welch and Satterthwaite.
Located change_between(const Located& base, const Located& test) {
  Located result;
  result.log = test.log - base.log;
  result.square_error = base.square_error + test.square_error;
  const double spread = base.square_error * base.square_error / base.degrees +
                        test.square_error * test.square_error / test.degrees;
  result.degrees =
      spread > 0 ? result.square_error * result.square_error / spread : base.degrees + test.degrees;
  return result;
}

/// As change_between() of launches. Where one side has two or three launches, Welch's degrees of freedom are
/// those of the larger side whenever the few happen to lie close together, and 14 % of equal pairs would
/// count as different. So the smaller side limits them.
Located change_of_launches(const std::vector<double>& base, const std::vector<double>& test) {
  Located change = change_between(located(base), located(test));
  const size_t fewest = std::min(base.size(), test.size());
  if (base.size() != test.size() && fewest < kFewestLaunches)
    change.degrees = std::min(change.degrees, static_cast<double>(fewest - 1));
  return change;
}

/// Turns a change of logarithms into a ratio with interval, p-value and verdict.
void conclude(Comparison& row, double log, double lower_log, double upper_log, double p) {
  row.ratio = std::exp(log);
  Interval interval{std::exp(lower_log), std::exp(upper_log), 0};
  interval.half_width_share = 0.5 * (interval.upper - interval.lower) / row.ratio;
  row.ratio_interval = interval;
  row.p = p;
  row.verdict = interval.lower > 1   ? Verdict::kSlower
                : interval.upper < 1 ? Verdict::kFaster
                                     : Verdict::kSame;
}

void conclude(Comparison& row, const Located& change) {
  const double error = std::sqrt(change.square_error);
  const double half = student_t_quantile(0.5 + 0.5 * row.options.confidence, change.degrees) * error;
  const double p = error > 0         ? student_t_two_sided_p(change.log / error, change.degrees)
                   : change.log == 0 ? 1.0
                                     : 0.0;
  conclude(row, change.log, change.log - half, change.log + half, p);
}

/// `changes`: logarithms of the ratios of pairs of launches.
void conclude_pairs(Comparison& row, const std::vector<double>& changes) {
  if (changes.size() < kRankedPairs) return conclude(row, located(changes));
  const SignedRank found = signed_rank(changes, row.options.confidence);
  conclude(row, found.estimate, found.lower, found.upper, found.p);
}

/// A single launch on a side: the intervals within the launches decide, for these launches only.
void compare_within(Comparison& row, const Launches& base, const Launches& test) {
  row.within_launches = true;
  std::string reason;
  const auto base_at = located_within(base, row.options, reason);
  const auto test_at = base_at ? located_within(test, row.options, reason) : std::nullopt;
  if (test_at) {
    conclude(row, change_between(*base_at, *test_at));
  } else {
    row.reason = fmt::format("{}: {}", base_at ? "test" : "base", reason);
  }
}

/// Averages of all pairs of values, ascending.
std::vector<double> pair_averages(std::span<const double> values) {
  std::vector<double> averages;
  averages.reserve(values.size() * (values.size() + 1) / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i; j < values.size(); ++j) averages.push_back(0.5 * (values[i] + values[j]));
  }
  std::ranges::sort(averages);
  return averages;
}

/// P(T <= t) for t from 0 to half of the greatest: T is the sum of those of the ranks 1 to `count` that fair
/// coins choose.
std::vector<double> lower_half(size_t count) {
  std::vector<double> chances(count * (count + 1) / 4 + 1);
  chances[0] = 1;
  for (size_t rank = 1; rank <= count; ++rank) {
    for (size_t sum = chances.size(); sum-- > 0;)
      chances[sum] = 0.5 * (chances[sum] + (sum >= rank ? chances[sum - rank] : 0));
  }
  for (size_t sum = 1; sum < chances.size(); ++sum) chances[sum] += chances[sum - 1];
  return chances;
}

}  // namespace

std::string_view verdict_text(Verdict verdict) {
  // In the order of Verdict.
  constexpr std::array<std::string_view, 4> kTexts{"faster", "slower", "same within noise",
                                                   "not enough data"};
  return kTexts[static_cast<size_t>(verdict)];
}

std::optional<Interval> Comparison::change_percent_interval() const {
  if (!ratio_interval) return std::nullopt;
  Interval interval{-100 * (ratio_interval->upper - 1), -100 * (ratio_interval->lower - 1), 0};
  interval.half_width_share =
      change_percent() != 0 ? 0.5 * (interval.upper - interval.lower) / std::abs(change_percent()) : 0;
  return interval;
}

bool Comparison::is_regression() const {
  return verdict == Verdict::kSlower && !within_launches && ratio - 1 > options.threshold;
}

Comparison compare(const Launches& base, const Launches& test, const CompareOptions& options) {
  const Launches base_kept = without_empty(base);
  const Launches test_kept = without_empty(test);
  Comparison row;
  row.options = options;
  if (base_kept.empty() || test_kept.empty()) {
    row.reason = base_kept.empty() ? "base: no steps" : "test: no steps";
    return row;
  }
  const std::vector<double> base_logs = log_values(base_kept, options.quantile);
  const std::vector<double> test_logs = log_values(test_kept, options.quantile);
  row.base_s = std::exp(mean_of(base_logs));
  row.test_s = std::exp(mean_of(test_logs));
  row.ratio = row.test_s / row.base_s;

  // A side that lost a launch can no longer be matched with the other in pairs.
  const bool whole = base_kept.size() == base.size() && test_kept.size() == test.size();
  if (base_kept.size() < 2 || test_kept.size() < 2) {
    compare_within(row, base_kept, test_kept);
  } else if (options.paired && whole && base.size() == test.size() && base.size() >= 3) {
    std::vector<double> changes(base_logs.size());
    std::transform(test_logs.begin(), test_logs.end(), base_logs.begin(), changes.begin(), std::minus<>());
    conclude_pairs(row, changes);
  } else {
    conclude(row, change_of_launches(base_logs, test_logs));
  }
  return row;
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double largest = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const double scaled = static_cast<double>(order.size() - rank) * p[order[rank]];
    // Holm's step-down: never below the p-value of a row that is more certain.
    largest = std::min(1.0, std::max(largest, scaled));
    corrected[order[rank]] = largest;
  }
  return corrected;
}

void correct_for_rows(std::vector<Comparison>& rows) {
  std::vector<double> p;
  for (const Comparison& row : rows) {
    if (row.p) p.push_back(*row.p);
  }
  const std::vector<double> corrected = holm(p);
  size_t next = 0;
  for (Comparison& row : rows) {
    if (!row.p) continue;
    if (corrected[next++] > 1 - row.options.confidence && row.differs()) row.verdict = Verdict::kSame;
  }
}

SignedRank signed_rank(std::span<const double> values, double confidence) {
  LOCKSTEP_ASSERT(!values.empty());
  const std::vector<double> averages = pair_averages(values);
  const std::vector<double> chances = lower_half(values.size());
  const size_t count = averages.size();
  // As many averages on each side are not in the interval.
  size_t outside = 0;
  while (outside < chances.size() && 2 * chances[outside] <= 1 - confidence) ++outside;
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  const auto not_below =
      static_cast<size_t>(std::ranges::count_if(averages, [](double one) { return one >= 0; }));
  const auto not_above =
      static_cast<size_t>(std::ranges::count_if(averages, [](double one) { return one <= 0; }));
  const size_t statistic = std::min(not_below, not_above);
  return {.estimate = 0.5 * (averages[(count - 1) / 2] + averages[count / 2]),
          .lower = outside > 0 ? averages[outside - 1] : -kEndless,
          .upper = outside > 0 ? averages[count - outside] : kEndless,
          .p = statistic < chances.size() ? std::min(1.0, 2 * chances[statistic]) : 1.0};
}

LookPlan::LookPlan(size_t most_pairs) {
  LOCKSTEP_ASSERT(most_pairs >= 2);
  // Growing by a half and by a third in turn: even numbers, so that every look has whole ABBA blocks.
  for (size_t pairs = kFirstLook; pairs < most_pairs; pairs *= 2) {
    looks_.push_back(pairs);
    if (pairs + pairs / 2 < most_pairs) looks_.push_back(pairs + pairs / 2);
  }
  looks_.push_back(most_pairs);
}

bool LookPlan::is_look(size_t pairs) const {
  return std::ranges::find(looks_, pairs) != looks_.end();
}

double LookPlan::confidence_of_look(bool last) const {
  const double part = looks_.size() == 1 ? 1 : last ? 0.5 : 0.5 / static_cast<double>(looks_.size() - 1);
  return 1 - part * kErrorOfLooks;
}

Certainty certainty_of(const Comparison& row) {
  if (row.differs() && !row.within_launches) return Certainty::kDiffers;
  const bool inside = row.ratio_interval && !row.within_launches &&
                      row.ratio_interval->lower > 1 - row.options.threshold &&
                      row.ratio_interval->upper < 1 + row.options.threshold;
  return inside ? Certainty::kBelowThreshold : Certainty::kOpen;
}

}  // namespace lockstep::measure
