#include "lockstep/results/record/summarize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/percentiles.h"
#include "lockstep/results/record/launches.h"

namespace lockstep::results {
namespace {

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
  const double steps = static_cast<double>(run.samples.size());
  run.images_per_s = run.ranks * run.images_per_rank_step() * steps / run.elapsed_s;
  const std::vector<double> maxima = per_step_maxima(run.samples);
  run.step_s = measure::step_percentiles(maxima);
  // Both would be the same if the ranks moved in step and nothing ran between steps.
  const double difference = sum(maxima) / run.elapsed_s - 1;
  if (std::abs(difference) > kElapsedTolerance) {
    run.warnings.push_back(
        {fmt::format("The longest steps of the ranks add up to {:.3f} s, but {:.3f} s passed ({:+.1f} %).",
                     sum(maxima), run.elapsed_s, 100 * difference),
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

void summarize(Run& run, const RowSeries& series) {
  check(run, series);
  run.samples = by_step(series.step_s);
  run.warmup_samples = by_step(series.warmup_s);
  run.warmup_steps = static_cast<int>(run.warmup_samples.size());
  run.elapsed_s = 0;
  // A run that ended within warm-up has nothing to compute from.
  if (run.samples.empty()) return assign_intervals(run);
  for (const std::vector<double>& steps : series.step_s) run.elapsed_s = std::max(run.elapsed_s, sum(steps));
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
