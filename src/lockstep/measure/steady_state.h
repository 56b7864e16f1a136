#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/measure/series_diagnosis.h"

namespace lockstep::measure {

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

}  // namespace lockstep::measure
