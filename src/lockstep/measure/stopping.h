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

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& ending) {
    fields("warmup_choice", ending.warmup_choice, kNullable);
    fields("stopped", ending.stopped, kNullable);
    fields("unsettled", ending.unsettled, kNullable);
  }
};

struct StoppingOptions {
  /// Enough is measured when half the widths of the 95 % intervals of the median and of the mean are below
  /// this share of them: percentiles rest on the one, images per second on the other.
  double precision_target = 0.02;
  /// Least time in steady steps with which precision can stop a run. Steps that take long rarely are not seen
  /// within milliseconds, and are part of the mean.
  double min_time_s = 2;
  /// Limit for the whole row, warm-up included.
  double max_time_s = 60;
  /// Limit for all steps, warm-up included.
  size_t max_steps = 10000;
  /// Fewest steady steps with which precision can stop a run.
  size_t min_steps = 30;
  /// The cut of `--warmup N`; empty: found.
  std::optional<size_t> fixed_warmup;
  SteadyStateOptions steady_state;
};

enum class StopReason { kContinue, kPrecise, kMaxTime, kMaxSteps };

struct StoppingDecision {
  bool stop = false;
  StopReason reason = StopReason::kContinue;
  /// In words, for progress and record: "precise: median known to 1.4 %, mean to 1.6 %", "the time of 60 s is
  /// over; median known to 3.1 %, mean to 3.3 %", "continue: not settled (trend)".
  std::string text;
  /// Unless stopped: further steps before the next decision, at least 1.
  size_t steps_to_next = 0;
  /// Further steps that precision is expected to take; empty as long as nothing can be said.
  std::optional<size_t> predicted_steps;
  /// The basis of the decision.
  SteadyState steady;
  Estimate median;
  Estimate mean;
};

/// Decides whether a run goes on: a pure function of all step times so far (warm-up included, per-step maxima
/// of a coupled job), in order. Called on rank 0 only; the caller broadcasts `stop` and `steps_to_next`, and
/// runs that many steps before it asks again.
///
/// Stopping at the first narrow interval, with frequent looks, would favor intervals that are narrow by
/// chance. So the looks are at counts that grow by a quarter each, not before `min_steps` steady steps that
/// took `min_time_s`, and the intervals that stop are t intervals whose degrees of freedom already account
/// for their own uncertainty: coverage is kept (docs/dev/statistics.md has the measurement).
StoppingDecision decide_stop(std::span<const double> step_s, double elapsed_s,
                             const StoppingOptions& options = {});

}  // namespace lockstep::measure
