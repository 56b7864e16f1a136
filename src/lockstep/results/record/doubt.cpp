#include "lockstep/results/record/doubt.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "lockstep/results/record/baseline.h"

namespace lockstep::results {
namespace {

/// Differences from 1 that rows of a quiet machine show, where their noise is known and where it is not. A
/// strategy may gain some: it updates a part of the parameters, or all while they are in the cache.
constexpr double kHarmless = 0.05;
constexpr double kHarmlessAbove1 = 0.1;
constexpr double kHarmlessUnknown = 0.2;

std::optional<measure::Interval> known(const std::optional<Interval>& interval) {
  if (!interval || !interval->missing.empty()) return std::nullopt;
  return measure::Interval{interval->low, interval->high, 0};
}

/// Whether a ratio that cannot exceed 1 by more than a strategy gains does, beyond its interval. Where the
/// baseline came out the same twice, a gain of up to `own_gain` is the strategy's own; one above 20 % is none
/// in any case, since an interval that wide comes from a disturbance, too.
bool exceeds_1(double ratio, const std::optional<measure::Interval>& interval, bool is_baseline_confirmed,
               double own_gain) {
  if (ratio > 1 + kHarmlessUnknown) return true;
  if (is_baseline_confirmed && ratio <= 1 + own_gain) return false;
  return interval ? ratio > 1 + kHarmless && interval->lower > 1 : ratio > 1 + kHarmlessAbove1;
}

std::string doubt_of(const RunRecord& record, const Run& run) {
  // Nobody can measure a publication again.
  const Run* baseline = record.source == kPublished || !run.finished() ? nullptr : baseline_of(record, run);
  if (baseline == nullptr || baseline == &run) return "";
  const bool confirmed = baseline->again && !drifted(*baseline);
  // A rank that has the machine to itself may be as fast as in the faster of two measurements.
  const double faster = baseline->again ? std::clamp(baseline->again->ratio, 1.0, 1 + kHarmlessAbove1) : 1;
  auto interval = known(run.efficiency_interval());
  if (interval) interval->lower /= faster;
  if (baseline->role() == Role::kBaseline && run.efficiency &&
      exceeds_1(*run.efficiency / faster, interval, confirmed, kHarmlessUnknown)) {
    return fmt::format(
        "It came out {:.0f} % efficient, but no rank can be faster than one that has the "
        "machine to itself: the baseline was disturbed.",
        100 * *run.efficiency);
  }
  const Run* control = communicates(run) ? independent_of(record, run) : nullptr;
  if (control != nullptr && control->images_per_s > 0) {
    const double ratio = run.images_per_s / control->images_per_s;
    const auto above = bounded_rate(run), below = bounded_rate(*control);
    // Only the baseline was measured twice, not the control.
    if (exceeds_1(ratio, above && below ? measure::ratio_interval(*above, *below) : std::nullopt, confirmed,
                  kHarmlessAbove1)) {
      return fmt::format(
          "It came out {:.0f} % faster than as many ranks that do not communicate: these were "
          "disturbed.",
          100 * (ratio - 1));
    }
  }
  if (!drifted(*baseline) || std::abs(baseline->again->ratio - 1) < kHarmlessAbove1) return "";
  return fmt::format(
      "Its baseline was {:.0f} % {} when it was measured again after the last row: the machine "
      "changed in between.",
      100 * std::abs(baseline->again->ratio - 1), baseline->again->ratio > 1 ? "faster" : "slower");
}

}  // namespace

std::string doubt_of_factors(const Run& run) {
  if (!run.factors) return "";
  const EfficiencyFactors& factors = *run.factors;
  const bool machine = is_impossible_factor(factors.machine, factors.half_width.machine);
  if (!machine && !is_impossible_factor(factors.strategy, factors.half_width.strategy)) return "";
  return fmt::format(
      "Its factor '{}' came out {:.0f} %, and none can be above 100 %: its breakdown or a "
      "control was disturbed.",
      machine ? "machine" : "strategy", 100 * (machine ? factors.machine : factors.strategy));
}

std::optional<measure::Bounded> bounded_rate(const Run& run) {
  if (!run.rate_interval || !run.rate_interval->missing.empty()) return std::nullopt;
  return measure::Bounded{run.images_per_s, run.rate_interval->low, run.rate_interval->high};
}

bool is_impossible_factor(double value, const std::optional<double>& half_width) {
  return value - half_width.value_or(0) > 1 + kHarmlessAbove1;
}

bool differs_from_1(double ratio, const std::optional<measure::Interval>& interval) {
  if (!interval) return std::abs(ratio - 1) >= kHarmlessUnknown;
  return (interval->lower > 1 || interval->upper < 1) && std::abs(ratio - 1) >= kHarmless;
}

void assign_again(Run& baseline, std::span<const double> step_s) {
  baseline.again.reset();
  const measure::Estimate mean = measure::mean_estimate(step_s, {.check_settled = false});
  if (!(mean.value > 0) || !(baseline.images_per_s > 0)) return;
  const double images = baseline.images_per_rank_step();
  Again& again = baseline.again.emplace();
  again.samples.assign(step_s.begin(), step_s.end());
  again.images_per_s = images / mean.value;
  again.ratio = again.images_per_s / baseline.images_per_s;
  const auto before = bounded_rate(baseline);
  if (!mean.interval || !before) return;
  const auto found = measure::ratio_interval(
      {again.images_per_s, images / mean.interval->upper, images / mean.interval->lower}, *before);
  if (found) again.ratio_interval = Interval{.low = found->lower, .high = found->upper, .missing = {}};
}

bool drifted(const Run& baseline) {
  return baseline.again && differs_from_1(baseline.again->ratio, known(baseline.again->ratio_interval));
}

void assign_doubts(RunRecord& record) {
  for (Run& run : record.runs) run.doubt = doubt_of(record, run);
}

std::vector<size_t> disturbed_rows(const RunRecord& record) {
  std::set<const Run*> found;
  for (const Run& run : record.runs) {
    if (!run.doubt.empty()) found.insert({&run, baseline_of(record, run), independent_of(record, run)});
  }
  std::vector<size_t> rows;
  for (size_t i = 0; i < record.runs.size(); ++i) {
    if (found.contains(&record.runs[i])) rows.push_back(i);
  }
  return rows;
}

std::optional<int> spare_cores(const RunRecord& record, const Run& run) {
  std::optional<int> fewest;
  if (run.hosts == 0) return fewest;
  const int ranks_per_host = (run.ranks + run.hosts - 1) / run.hosts;
  for (const Machine& machine : record.machines) {
    if (machine.cores <= 0) continue;
    const int spare = machine.cores - ranks_per_host * run.threads_per_rank;
    fewest = std::min(fewest.value_or(spare), spare);
  }
  return fewest;
}

}  // namespace lockstep::results
