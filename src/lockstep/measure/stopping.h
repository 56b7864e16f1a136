#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "lockstep/base/fields.h"
#include "lockstep/measure/interval.h"
#include "lockstep/measure/steady_state.h"

namespace lockstep::measure {

/// The end of a row, in words for its record.
struct Ending {
  /// How the end of warm-up was chosen.
  std::string warmup_choice;
  /// Why measuring ended.
  std::string stopped;
  /// Why the measured steps are not settled (SteadyState::unsettled_reason); empty if they are, or if nothing
  /// was decided.
  std::string unsettled;

  LOCKSTEP_DESCRIBE(kNullable, warmup_choice, stopped, unsettled)
};

struct StoppingOptions {
  /// A run is precise when half the widths of the 95 % intervals of the median and of the mean are below this
  /// share of them: percentiles rest on the one, images per second on the other.
  double precision_target = 0.02;
  /// Least time in steady steps with which precision or the number of steps can stop a run. Steps that take
  /// long rarely are not seen within milliseconds, and are part of the mean.
  double min_time_s = 2;
  /// Limit for the whole row, warm-up included.
  double max_time_s = 60;
  /// Limit for all steps, warm-up included.
  size_t max_steps = 10000;
  /// The cut of `--warmup N`; empty: found.
  std::optional<size_t> fixed_warmup;
};

struct StoppingDecision {
  bool stop = false;
  /// For progress and record: "precise: median known to 1.4 %, mean to 1.6 %", "the time of 60 s is over;
  /// median known to 3.1 %, mean to 3.3 %", "10000 steps are the most; ...", "continue: not settled (trend)".
  std::string text;
  /// Unless stopped: further steps before the next decision, at least 1.
  size_t steps_to_next = 0;
  /// The basis of the decision.
  SteadyState steady;
  Estimate median;
  Estimate mean;
};

/// Decides whether a run goes on: a pure function of all step times so far (warm-up included, per-step maxima
/// of a coupled job), in order. Call on rank 0 only, broadcast `stop` and `steps_to_next`, and run that many
/// steps before the next call.
///
/// Stopping at the first narrow interval, with frequent checks, would favor intervals that are narrow by
/// chance. So the checks are at counts that grow by a quarter each, not before 30 steady steps that took
/// `min_time_s`, and the intervals that stop are t intervals whose degrees of freedom already account for
/// their own uncertainty: coverage is kept (docs/dev/statistics.md has the measurement).
StoppingDecision decide_stop(std::span<const double> step_s, double elapsed_s,
                             const StoppingOptions& options = {});

}  // namespace lockstep::measure
