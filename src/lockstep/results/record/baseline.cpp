#include "lockstep/results/record/baseline.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "lockstep/measure/interval.h"
#include "lockstep/results/record/doubt.h"

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

}  // namespace lockstep::results
