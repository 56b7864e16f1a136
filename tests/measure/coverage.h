#pragma once

#include <span>

#include "lockstep/measure/interval.h"
#include "lockstep/measure/stopping.h"

#include "measure/synthetic.h"

namespace lockstep::measure::synthetic {

/// How many of `trials` intervals were given, and how many of those hold the truth.
struct Coverage {
  int trials = 0;
  int given = 0;
  int held = 0;

  void count(const Estimate& estimate, double truth) {
    ++trials;
    if (!estimate.interval) return;
    ++given;
    held += estimate.interval->lower <= truth && truth <= estimate.interval->upper ? 1 : 0;
  }
  double given_percent() const { return 100.0 * given / trials; }
  double percent() const { return given > 0 ? 100.0 * held / given : 0; }
  /// Share of all trials with an interval that is wrong.
  double wrong_percent() const { return 100.0 * (given - held) / trials; }
};

struct CoverageOfBoth {
  Coverage median;
  Coverage mean;
  /// Mean number of steps per trial.
  double steps = 0;
};

/// Draws `trials` series and counts how often the intervals of median and mean hold the truth.
inline CoverageOfBoth cover(const Series& series, int trials, unsigned seed) {
  Generator random(seed);
  CoverageOfBoth result;
  result.steps = static_cast<double>(series.steps);
  for (int i = 0; i < trials; ++i) {
    const std::vector<double> step_s = draw(series, random);
    const Estimate median = quantile_estimate(step_s, 0.5);
    const bool refused = median.reason_text == "trend" || median.reason_text.starts_with("level shift");
    result.median.count(median, series.median_of_all_s());
    // The judgement whether the series is settled is the same for both, and half of the cost.
    result.mean.count(refused ? median : mean_estimate(step_s, {.check_settled = false}), series.mean_s());
  }
  return result;
}

/// The same where the stopping rule decides how many of series.steps steps are run. `decay` > 0 adds a
/// warm-up.
inline CoverageOfBoth cover_stopped(const Series& series, int trials, unsigned seed, double decay = 0) {
  Generator random(seed);
  CoverageOfBoth result;
  StoppingOptions options;
  options.max_time_s = 1e9;
  options.max_steps = series.steps;
  for (int i = 0; i < trials; ++i) {
    std::vector<double> step_s = draw(series, random);
    if (decay > 0) add_decaying_warmup(step_s, series.median_s, 1, decay);
    size_t steps = 5;
    StoppingDecision decision;
    while (true) {
      decision = decide_stop(std::span<const double>(step_s).first(steps), 0, options);
      if (decision.stop) break;
      steps = std::min(steps + decision.steps_to_next, step_s.size());
    }
    result.steps += static_cast<double>(steps) / trials;
    result.median.count(decision.median, series.median_of_all_s());
    result.mean.count(mean_estimate(std::span<const double>(step_s).first(steps).subspan(decision.steady.cut),
                                    {.check_settled = false}),
                      series.mean_s());
  }
  return result;
}

}  // namespace lockstep::measure::synthetic
