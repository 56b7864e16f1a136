#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/measure/series_diagnosis.h"

namespace lockstep::measure {

/// SteadyState::unsettled_reason of a run that ended within a decay of its step times.
inline constexpr const char* kWarmupNotOver = "warm-up not over";

struct SteadyStateOptions {
  /// Never fewer warm-up steps than this.
  size_t floor = 3;
  /// Never more; a series that has not settled by then is "not settled".
  size_t ceiling = 1000;
};

/// The end of warm-up, and whether what follows can be measured.
struct SteadyState {
  /// The first steady step, 0-based; equal to the number of warm-up steps.
  size_t cut = 0;
  /// Whether what follows the cut can be measured: enough steps to judge, no trend, no level shift.
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
/// The cut minimizes the marginal error of what follows (a stricter MSER: White 1997), on logarithms scaled
/// robustly by the last half of the run and clamped, so that neither a very slow first step nor a late
/// outlier decides. It is taken only when the steps before it differ from those after beyond chance,
/// correlation included (else the floor is), and moved on until the tail of a decay is harmless. A level
/// shift that remains in the first half moves it there. At most half of the steps are cut: a longer warm-up
/// is found once the run has gone on. O(n log n), a few ms for 10,000 steps: may be called again after every
/// few steps.
SteadyState find_steady_state(std::span<const double> step_s, const SteadyStateOptions& options = {});

/// Cuts after `warmup_steps` (`--warmup N`) and judges the remainder in the same way.
SteadyState fixed_warmup(std::span<const double> step_s, size_t warmup_steps);

}  // namespace lockstep::measure
