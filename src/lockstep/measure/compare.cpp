#include "lockstep/measure/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include "lockstep/measure/distributions.h"
#include "lockstep/measure/percentiles.h"
#include "lockstep/measure/series.h"
#include "lockstep/measure/signed_rank.h"

namespace lockstep::measure {
namespace {

/// An estimate of a logarithm, with its squared standard error and degrees of freedom.
struct Located {
  double log = 0;
  double square_error = 0;
  double degrees = 0;
};

using Launches = std::vector<std::vector<double>>;

/// Fewer pairs cannot be certain enough by their ranks: 12 of one sign have a chance of 1 in 2,048.
constexpr size_t kRankedPairs = 12;

/// A launch that was ended before its first steady step says nothing.
Launches without_empty(const Launches& launches) {
  Launches kept;
  for (const auto& launch : launches) {
    if (launch.empty()) continue;
    require_step_times(launch);
    kept.push_back(launch);
  }
  return kept;
}

std::vector<double> log_quantiles(const Launches& launches, double quantile) {
  std::vector<double> logs;
  for (const auto& launch : launches) logs.push_back(logarithm(percentile(launch, 100 * quantile)));
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
    const Estimate estimate =
        quantile_estimate(std::span<const double>(launches[i]), options.quantile, {options.confidence, true});
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

/// As change_between() of launches. Two launches on one side against many on the other: Welch's degrees of
/// freedom are those of the many wherever the two happen to lie close together, and 14 % of equals would be
/// told apart. So there are no more than the smaller side has.
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
  row.corrected_p = row.p;
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

std::string Comparison::text() const {
  std::string words(verdict_text(verdict));
  if (differs() && within_launches) words += " within these launches";
  if (!reason.empty()) words += fmt::format(" ({})", reason);
  return words;
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
  const std::vector<double> base_logs = log_quantiles(base_kept, options.quantile);
  const std::vector<double> test_logs = log_quantiles(test_kept, options.quantile);
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
    row.corrected_p = corrected[next++];
    if (row.differs() && *row.corrected_p > 1 - row.options.confidence) row.verdict = Verdict::kSame;
  }
}

}  // namespace lockstep::measure
