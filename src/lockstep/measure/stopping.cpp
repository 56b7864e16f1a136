#include "lockstep/measure/stopping.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/series.h"

namespace lockstep::measure {
namespace {

/// Growth of the step count from one check to the next.
constexpr double kGrowth = 1.25;

/// Most time of the steps to the next check, so that a row whose steps become slower ends in time all the
/// same: the larger of these seconds and this share of the time so far.
constexpr double kMostAhead_s = 10;
constexpr double kMostAhead = 0.1;

/// Fewest degrees of freedom of an interval that may stop a run: with fewer its width is a matter of luck.
constexpr double kMinDegrees = 8;

/// Fewest steady steps with which precision can stop a run.
constexpr size_t kMinSteps = 30;

constexpr IntervalOptions kUnchecked{.check_settled = false};

bool narrow(const Estimate& estimate, const StoppingOptions& options) {
  return estimate.interval && estimate.degrees >= kMinDegrees &&
         estimate.interval->half_width_share < options.precision_target;
}

/// Whether both intervals were narrow at about the step count of the previous check.
bool was_narrow(std::span<const double> steady, const StoppingOptions& options) {
  const auto earlier = steady.first(static_cast<size_t>(static_cast<double>(steady.size()) / kGrowth));
  return narrow(quantile_estimate(earlier, 0.5, kUnchecked), options) &&
         narrow(mean_estimate(earlier, kUnchecked), options);
}

std::string precision_text(const StoppingDecision& decision) {
  if (!decision.steady.settled) return fmt::format("not settled ({})", decision.steady.unsettled_reason);
  if (!decision.median.interval) return decision.median.reason_text;
  const auto percent = [](const Estimate& estimate) {
    return format_number(100 * estimate.interval->half_width_share, 2);
  };
  const std::string mean = decision.mean.interval ? fmt::format("to {} %", percent(decision.mean)) : "not";
  return fmt::format("median known to {} %, mean {}", percent(decision.median), mean);
}

/// Takes the interval away unless the run is settled; the cut's verdict on the remaining steps says why.
void require_settled(Estimate& estimate, const SteadyState& steady) {
  if (steady.settled || !estimate.interval) return;
  estimate.interval.reset();
  estimate.reason_text = steady.unsettled_reason;
}

/// `missing_s`: to the least time of steady steps.
size_t steps_to_next(const StoppingDecision& decision, size_t steps, double elapsed_s, double missing_s,
                     double step_s, const StoppingOptions& options) {
  const size_t steady = decision.steady.remainder.steps;
  const auto now = static_cast<double>(steady);
  double next = std::max(now * kGrowth, now + 4);
  // While unsettled, the cut may still move and restart the count after it.
  if (decision.steady.settled && steady < kMinSteps) next = double{kMinSteps};
  double further = std::ceil(next - now);
  if (decision.steady.settled && step_s > 0) further = std::max(further, std::ceil(missing_s / step_s));
  const double ahead_s =
      std::min(options.max_time_s - elapsed_s, std::max(kMostAhead_s, kMostAhead * elapsed_s));
  if (step_s > 0) further = std::min(further, std::ceil(ahead_s / step_s));
  if (options.max_steps > steps) further = std::min(further, static_cast<double>(options.max_steps - steps));
  return static_cast<size_t>(std::max(further, 1.0));
}

}  // namespace

StoppingDecision decide_stop(std::span<const double> step_s, double elapsed_s,
                             const StoppingOptions& options) {
  StoppingDecision decision;
  decision.steady =
      options.fixed_warmup ? fixed_warmup(step_s, *options.fixed_warmup) : find_steady_state(step_s);
  const auto steady = step_s.subspan(decision.steady.cut);
  decision.median = quantile_estimate(steady, 0.5, kUnchecked);
  decision.mean = mean_estimate(steady, kUnchecked);
  require_settled(decision.median, decision.steady);
  require_settled(decision.mean, decision.steady);

  const double steady_s = std::accumulate(steady.begin(), steady.end(), 0.0);
  const bool precise = decision.steady.settled && steady.size() >= kMinSteps &&
                       steady_s >= options.min_time_s && narrow(decision.median, options) &&
                       narrow(decision.mean, options) && was_narrow(steady, options);
  decision.stop = true;
  if (precise) {
    decision.text = fmt::format("precise: {}", precision_text(decision));
  } else if (elapsed_s >= options.max_time_s) {
    decision.text =
        fmt::format("the time of {:g} s is over; {}", options.max_time_s, precision_text(decision));
  } else if (step_s.size() >= options.max_steps && steady_s >= options.min_time_s) {
    decision.text = fmt::format("{} steps are the most; {}", options.max_steps, precision_text(decision));
  } else {
    decision.stop = false;
    const double typical = steady.empty() ? 0 : median_of(steady);
    decision.steps_to_next =
        steps_to_next(decision, step_s.size(), elapsed_s, options.min_time_s - steady_s, typical, options);
    decision.text = fmt::format("continue: {}", precision_text(decision));
  }
  return decision;
}

}  // namespace lockstep::measure
