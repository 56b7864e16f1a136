#include "lockstep/results/record/baseline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/interval.h"
#include "lockstep/measure/series.h"
#include "lockstep/results/record/launches.h"

namespace lockstep::results {
namespace {

/// Whether two runs agree in all settings of communication but the strategy.
bool same_communication(const Run& a, const Run& b) {
  return std::ranges::all_of(kSettings, [&](const Setting& setting) {
    return !setting.has(Setting::kOfCommunication) || setting.key == std::string_view("strategy") ||
           setting.same(a, b);
  });
}

/// Under strong scaling the batch per rank follows from the number of ranks.
bool follows_from_ranks(const Setting& setting, const Run& run) {
  return setting.member == Setting::Member(&Setup::ranks) ||
         (setting.member == Setting::Member(&Setup::batch_per_rank) && run.global_batch > 0);
}

/// A time with half the width of its 95 % interval.
struct Uncertain {
  double value = 0;
  std::optional<double> half_width;

  std::optional<double> relative() const {
    if (!half_width || !(value > 0)) return std::nullopt;
    return *half_width / value;
  }
};

/// Half the width of the interval of images/s, as a share of the rate.
std::optional<double> relative_half_width(const Run& run) {
  const auto rate = bounded_rate(run);
  if (!rate || !(rate->value > 0)) return std::nullopt;
  return (rate->upper - rate->lower) / 2 / rate->value;
}

/// The interval of the run's rate over the baseline's, or the reason why there is none.
Interval interval_of_speedup(const Run& run, const Run& baseline) {
  const auto above = bounded_rate(run), below = bounded_rate(baseline);
  const auto reason = [](const Run& of) {
    return of.rate_interval && !of.rate_interval->missing.empty() ? of.rate_interval->missing
                                                                  : "not enough data";
  };
  if (!above) return {.missing = reason(run)};
  if (!below) return {.missing = "baseline: " + reason(baseline)};
  const auto found = measure::ratio_interval(*above, *below);
  if (!found) return {.missing = "not enough data"};
  return {.low = found->lower, .high = found->upper, .missing = {}};
}

/// The relative half width of a quotient of independent times.
std::optional<double> half_width_of_ratio(double ratio, const Uncertain& above, const Uncertain& below) {
  const std::optional<double> a = above.relative(), b = below.relative();
  if (!a || !b) return std::nullopt;
  return ratio * std::hypot(*a, *b);
}

/// The four times of the definition, for one run.
class FactorTimes {
 public:
  /// `independent` is null for a recorded run without one: then `machine` is what both are, and `strategy` 1.
  FactorTimes(const Run& run, const Run& baseline, const Run* independent)
      : alone_(uncertain_step(baseline, run)), has_independent_(independent != nullptr) {
    job_ = uncertain_step(run, run);
    const Breakdown& breakdown = *run.breakdown;
    const double to_job = job_.value / breakdown.mean.step_s;
    waiting_ = {breakdown.mean.waiting_s * to_job, scaled(breakdown.waiting_half_width_s, to_job)};
    transfer_ = {breakdown.mean.transfer_s * to_job, scaled(breakdown.transfer_half_width_s, to_job)};
    independent_ = independent == nullptr ? difference(difference(job_, waiting_), transfer_)
                                          : uncertain_step(*independent, run);
  }

  EfficiencyFactors factors() const {
    const Uncertain without_waiting = difference(job_, waiting_);
    const Uncertain own_work = difference(without_waiting, transfer_);
    EfficiencyFactors factors;
    factors.machine = alone_.value / independent_.value;
    factors.strategy = independent_.value / own_work.value;
    factors.transfer = own_work.value / without_waiting.value;
    factors.stragglers = without_waiting.value / job_.value;
    factors.half_width.machine = half_width_of_ratio(factors.machine, alone_, independent_);
    if (has_independent_)
      factors.half_width.strategy = half_width_of_ratio(factors.strategy, independent_, own_work);
    // 1 - X / (T - W) and 1 - W / T: the subtracted part is the uncertain one.
    factors.half_width.transfer = half_width_of_share(1 - factors.transfer, transfer_, without_waiting);
    factors.half_width.stragglers = half_width_of_share(1 - factors.stragglers, waiting_, job_);
    return factors;
  }

 private:
  /// The step of one rank of `of`, with the work that one rank of `run` has in a step.
  static Uncertain uncertain_step(const Run& of, const Run& run) {
    Uncertain step{.value = run.images_per_rank_step() * of.ranks / of.images_per_s, .half_width = {}};
    if (const auto relative = relative_half_width(of)) step.half_width = *relative * step.value;
    return step;
  }

  static std::optional<double> scaled(const std::optional<double>& value, double by) {
    return value ? std::optional(*value * by) : std::nullopt;
  }

  static Uncertain difference(const Uncertain& a, const Uncertain& b) {
    Uncertain result{.value = a.value - b.value, .half_width = {}};
    if (a.half_width && b.half_width) result.half_width = std::hypot(*a.half_width, *b.half_width);
    return result;
  }

  static std::optional<double> half_width_of_share(double share, const Uncertain& part,
                                                   const Uncertain& whole) {
    if (!part.half_width || !whole.half_width) return std::nullopt;
    return std::hypot(*part.half_width / whole.value, share * *whole.half_width / whole.value);
  }

  Uncertain alone_, independent_, job_, waiting_, transfer_;
  bool has_independent_;
};

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

/// Share of the measured time by which the sum of per-step maxima may differ without a warning.
constexpr double kElapsedTolerance = 0.01;

double sum(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Seconds after the common start at which an uncoupled rank began to be measured.
double start_of(const RowSeries& series, size_t rank) {
  return series.warmup_s.empty() ? 0.0 : sum(series.warmup_s[rank]);
}

/// Throws Error for series from which nothing can be computed.
void check(const Run& run, const RowSeries& series) {
  const size_t ranks = series.step_s.size();
  const auto refuse = [&](const std::string& reason) {
    throw Error(fmt::format("{} with {} at {} ranks: {}", run.model, run.strategy, run.ranks, reason));
  };
  const auto all = static_cast<size_t>(std::max(run.measured_ranks(), 0));
  if (ranks < 1 || ranks > all || (run.finished() && ranks != all))
    refuse(fmt::format("samples of {} ranks", ranks));
  if (!series.warmup_s.empty() && series.warmup_s.size() != ranks) {
    refuse(fmt::format("warm-up samples of {} ranks", series.warmup_s.size()));
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<double>& steps = series.step_s[rank];
    if (steps.empty() && run.finished()) refuse(fmt::format("rank {} has no measured step", rank));
    if (run.coupled && steps.size() != series.step_s[0].size()) {
      refuse(fmt::format("rank {} has {} steps, rank 0 has {}", rank, steps.size(), series.step_s[0].size()));
    }
    for (size_t step = 0; step < steps.size(); ++step) {
      // Negated, so that a time that is no number is refused, too.
      if (!(steps[step] > 0) || !std::isfinite(steps[step])) {
        refuse(fmt::format("step {} of rank {} took {} s", step, rank, steps[step]));
      }
    }
  }
}

/// Transposes to [step][rank], cut to the rank with the fewest steps.
std::vector<std::vector<double>> by_step(const std::vector<std::vector<double>>& by_rank) {
  if (by_rank.empty()) return {};
  const auto fewest = std::ranges::min(by_rank, {}, [](const auto& steps) { return steps.size(); });
  std::vector<std::vector<double>> samples(fewest.size());
  for (size_t step = 0; step < samples.size(); ++step) {
    for (const std::vector<double>& steps : by_rank) samples[step].push_back(steps[step]);
  }
  return samples;
}

/// Steps per second of one rank, over its steps that begin and end inside [from_s, to_s]; over all of its
/// steps when there is none.
double rate_inside(double start_s, std::span<const double> step_s, double from_s, double to_s) {
  // Ends are sums of many steps: an end that is the window's own must not fall out by rounding.
  const double slack_s = 1e-9 * std::max(1.0, std::abs(to_s));
  double begin_s = start_s, inside_s = 0;
  int steps = 0;
  for (const double step : step_s) {
    const double end_s = begin_s + step;
    if (begin_s >= from_s - slack_s && end_s <= to_s + slack_s) {
      inside_s += step;
      ++steps;
    }
    begin_s = end_s;
  }
  if (steps == 0) return static_cast<double>(step_s.size()) / sum(step_s);
  return steps / inside_s;
}

/// The job's step is its slowest rank's: the rate follows from the time that passed for all.
void summarize_coupled(Run& run) {
  const auto steps = static_cast<double>(run.samples.size()) * run.steps_per_sample();
  run.images_per_s = run.ranks * run.images_per_rank_step() * steps / run.elapsed_s;
  const std::vector<double> maxima = per_step_maxima(run.samples);
  run.step_s = measure::step_percentiles(maxima);
  // Both would be the same if the ranks moved in step and nothing ran between steps.
  const double longest_s = sum(maxima) * run.steps_per_sample();
  const double difference = longest_s / run.elapsed_s - 1;
  if (std::abs(difference) > kElapsedTolerance) {
    run.warnings.push_back(
        {fmt::format("The longest steps of the ranks add up to {:.3f} s, but {:.3f} s passed ({:+.1f} %).",
                     longest_s, run.elapsed_s, 100 * difference),
         "The ranks did not move in step, or something ran between their steps: trust images/s more than the "
         "percentiles, and run more steps."});
  }
}

/// Rates are counted only while all ranks run, since the first to end leaves the machine to the others.
void summarize_uncoupled(Run& run, const RowSeries& series) {
  double from_s = -std::numeric_limits<double>::infinity();
  double to_s = std::numeric_limits<double>::infinity();
  for (size_t rank = 0; rank < series.step_s.size(); ++rank) {
    from_s = std::max(from_s, start_of(series, rank));
    to_s = std::min(to_s, start_of(series, rank) + sum(series.step_s[rank]));
  }
  run.images_per_s = 0;
  size_t slowest = 0;
  double slowest_rate = std::numeric_limits<double>::infinity();
  for (size_t rank = 0; rank < series.step_s.size(); ++rank) {
    const double rate = rate_inside(start_of(series, rank), series.step_s[rank], from_s, to_s);
    run.images_per_s += run.images_per_rank_step() * rate;
    if (rate < slowest_rate) {
      slowest_rate = rate;
      slowest = rank;
    }
  }
  run.step_s = measure::step_percentiles(series.step_s[slowest]);
}

}  // namespace

bool same_work(const Run& a, const Run& b) {
  return std::ranges::all_of(kSettings, [&](const Setting& setting) {
    // A user's launcher gives the ranks of a larger job fewer threads each.
    if (a.recorded && setting.member == Setting::Member(&Setup::threads_per_rank)) return true;
    const bool of_work = setting.has(Setting::kIdentity) ||
                         (setting.is_attribute() && !setting.has(Setting::kOfCommunication));
    return !of_work || follows_from_ranks(setting, a) || setting.same(a, b);
  });
}

bool same_row(const Run& a, const Run& b) {
  if (!a.finished() || !b.finished()) return false;
  if (!same_work(a, b) || a.strategy != b.strategy || a.ranks != b.ranks || a.hosts != b.hosts) return false;
  return !communicates(a) || same_communication(a, b);
}

const Run* baseline_of(const RunRecord& record, const Run& run) {
  const Run* found = nullptr;
  for (const Run& other : record.runs) {
    if (!other.finished() || other.strategy != record.baseline_strategy || !same_work(other, run)) continue;
    if (record.baseline_ranks != 0 && other.ranks != record.baseline_ranks) continue;
    // A baseline that communicates is one of its own kind.
    if (communicates(other) && communicates(run) && other.strategy == run.strategy &&
        !same_communication(other, run)) {
      continue;
    }
    if (found == nullptr || other.ranks < found->ranks) found = &other;
  }
  return found;
}

const Run* independent_of(const RunRecord& record, const Run& run) {
  for (const Run& other : record.runs) {
    if (other.finished() && other.role() == Role::kControl && other.ranks == run.ranks &&
        same_work(other, run))
      return &other;
  }
  return nullptr;
}

const Run* single_of(const RunRecord& record, const Run& run) {
  for (const Run& other : record.runs) {
    if (other.finished() && other.role() == Role::kBaseline && same_work(other, run)) return &other;
  }
  return nullptr;
}

bool is_control(const RunRecord& record, const Run& run) {
  if (run.role() != Role::kControl) return run.role() == Role::kBaseline;
  return !record.strategies.empty() &&
         std::ranges::find(record.strategies, run.strategy) == record.strategies.end();
}

void assign_baselines(RunRecord& record) {
  for (Run& run : record.runs) {
    run.baseline.reset();
    run.speedup.reset();
    run.efficiency.reset();
    run.speedup_interval.reset();
    if (!run.finished()) continue;
    const Run* baseline = baseline_of(record, run);
    if (baseline == nullptr || !(baseline->images_per_s > 0)) continue;
    run.baseline = Baseline{baseline->strategy, baseline->ranks, baseline->images_per_s};
    run.speedup = run.images_per_s / baseline->images_per_s;
    run.efficiency = *run.speedup * baseline->ranks / run.ranks;
  }
  assign_speedup_intervals(record);
  assign_doubts(record);
}

void assign_speedup_intervals(RunRecord& record) {
  for (Run& run : record.runs) {
    if (!run.speedup || run.speedup_interval) continue;
    const Run* baseline = baseline_of(record, run);
    if (baseline != nullptr && baseline != &run) run.speedup_interval = interval_of_speedup(run, *baseline);
  }
}

void assign_factors(RunRecord& record) {
  for (Run& run : record.runs) {
    run.factors.reset();
    if (!run.coupled || run.role() == Role::kBaseline || !run.baseline || !run.breakdown) continue;
    // A damaged file may have times or rates of 0, and all of these are divisors.
    if (!(run.breakdown->mean.step_s > 0) || !(run.images_per_s > 0)) continue;
    const Run* baseline = baseline_of(record, run);
    // One rank has the machine to itself: its control is the baseline.
    const Run* independent = run.ranks == 1 ? baseline : independent_of(record, run);
    if (baseline == nullptr || (independent == nullptr && !run.recorded)) continue;
    if (independent != nullptr && !(independent->images_per_s > 0)) continue;
    run.factors = FactorTimes(run, *baseline, independent).factors();
  }
}

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

void summarize(Run& run, const RowSeries& series) {
  check(run, series);
  run.samples = by_step(series.step_s);
  run.warmup_samples = by_step(series.warmup_s);
  run.warmup_steps = static_cast<int>(run.warmup_samples.size());
  run.elapsed_s = 0;
  // A run that ended within warm-up has nothing to compute from.
  if (run.samples.empty()) return assign_intervals(run);
  for (const std::vector<double>& steps : series.step_s)
    run.elapsed_s = std::max(run.elapsed_s, run.steps_per_sample() * sum(steps));
  if (run.coupled) {
    summarize_coupled(run);
  } else {
    summarize_uncoupled(run, series);
    if (series.step_s.size() < static_cast<size_t>(run.ranks)) run.images_per_s = 0;
  }
  assign_intervals(run);
}

std::vector<double> per_step_maxima(Samples samples) {
  std::vector<double> maxima;
  maxima.reserve(samples.size());
  for (const std::vector<double>& ranks : samples) {
    if (!ranks.empty()) maxima.push_back(std::ranges::max(ranks));
  }
  return maxima;
}

std::vector<double> steps_of_rank(Samples samples, size_t rank) {
  std::vector<double> steps;
  for (const std::vector<double>& ranks : samples) {
    if (rank < ranks.size()) steps.push_back(ranks[rank]);
  }
  return steps;
}

std::vector<double> representative_steps(Samples samples, bool coupled) {
  if (coupled || samples.empty()) return per_step_maxima(samples);
  std::vector<double> total_s;
  for (size_t rank = 0; rank < samples.front().size(); ++rank)
    total_s.push_back(sum(steps_of_rank(samples, rank)));
  return steps_of_rank(samples, static_cast<size_t>(std::ranges::max_element(total_s) - total_s.begin()));
}

}  // namespace lockstep::results
