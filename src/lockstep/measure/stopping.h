#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "lockstep/base/fields.h"
#include "lockstep/measure/interval.h"

namespace lockstep::measure {

/// A change from one level before `step` (0-based) to another from it on; medians, in the samples' unit.
struct LevelShift {
  size_t step = 0;
  double before = 0;
  double after = 0;
  /// Share of the variance that it explains.
  double explained = 0;
  double change_share() const { return after / before - 1; }
};

/// Values far from the rest: robust z beyond 5, each side measured by its own width.
struct Outliers {
  size_t count = 0;
  double share = 0;
  /// The slowest outlier as a multiple of the median (3.0: three times the median), and its step; both 0 if
  /// there is none.
  double largest_ratio = 0;
  size_t largest_step = 0;
};

/// Findings about a series of step times. At most one of `trend` and `level_shift` is set: the one that
/// explains the series better.
struct SeriesDiagnosis {
  size_t steps = 0;
  double median = 0;
  /// A steady rise or fall: the change from the first to the last step as a share of the median; positive if
  /// steps become slower.
  std::optional<double> trend;
  std::optional<LevelShift> level_shift;
  Outliers outliers;

  /// "trend", or "level shift at step 240" with `first_step` added to the step; empty if the series is
  /// settled.
  std::string unsettled_reason(size_t first_step = 0) const;
  /// "level shift at step 120: from 10.0 ms to 12.0 ms (+20 %)"; several findings are joined by
  /// "; "; empty if there are none.
  std::string text() const;
};

/// The shortest series that is examined; a shorter one never has a trend or a level shift.
inline constexpr size_t kMinForDiagnosis = 16;

/// Examines steps in the order in which they ran. A trend or level shift is named when it is beyond
/// chance (about 1 settled series in 1,000 is named wrongly, also when neighbors are correlated) and moves
/// the level by at least kMaterialChange.
SeriesDiagnosis diagnose(std::span<const double> step_s);

/// Changes below this share of the median are ignored, however certain they are.
inline constexpr double kMaterialChange = 0.005;

/// SteadyState::unsettled_reason of a run that ended within a decay of its step times.
inline constexpr const char* kWarmupNotOver = "warm-up not over";

/// Warm-up that is cut in any case (DDP's Reducer rebuilds its buckets after the first step), and at most; a
/// series that has not settled by then is "not settled".
inline constexpr size_t kLeastWarmup = 3;
inline constexpr size_t kMostWarmup = 1000;

/// The end of warm-up, and whether the remaining steps can be measured.
struct SteadyState {
  /// The first steady step, 0-based; equal to the number of warm-up steps.
  size_t cut = 0;
  /// Whether the steps after the cut can be measured: they are enough, without a trend or a level shift.
  bool settled = false;
  /// How the cut was chosen: "3 steps, the least: none after them stands out", "17 steps: they took 1.8 times
  /// as long as those after".
  std::string chosen;
  /// Why not settled: "not enough data", "trend", "warm-up not over", "level shift at step 240" (counted from
  /// the first of all steps).
  std::string unsettled_reason;
  /// Diagnosis of the steps from the cut on.
  SeriesDiagnosis remainder;
};

/// Finds the first steady step in all step times of a run so far, warm-up included, in order.
///
/// The cut minimizes the marginal error of the remaining steps (a stricter MSER: White 1997), on logarithms
/// scaled robustly by the last half of the run and clamped, so that neither a very slow first step nor a late
/// outlier decides. It is taken only when the steps before it differ from those after beyond chance,
/// correlation included (else kLeastWarmup is), and moved on until the tail of a decay is harmless. A level
/// shift that remains in the first half moves it there. At most half of the steps are cut: a longer warm-up
/// is found once the run has gone on. O(n log n), a few ms for 10,000 steps, so a run may call it every few
/// steps.
///
/// `only_slower`: leaves steps that were faster than those after; a training that slows down has changed.
SteadyState find_steady_state(std::span<const double> step_s, bool only_slower = false);

/// Cuts after `warmup_steps` (`--warmup N`) and examines the remainder in the same way.
SteadyState fixed_warmup(std::span<const double> step_s, size_t warmup_steps);

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
