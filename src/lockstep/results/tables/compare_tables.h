#pragma once

#include <cstddef>

#include "lockstep/results/tables/diff.h"
#include "lockstep/results/tables/document.h"

namespace lockstep::results {

/// Why a comparison in turns ended.
enum class TurnsEnd { kCertain, kMostLaunches, kMaxTime, kInterrupted, kFailed };

/// A comparison in turns that has ended: base, test, test, base, ...
struct Turns {
  TurnsEnd end = TurnsEnd::kCertain;
  /// Launches of each side.
  size_t pairs = 0;
  /// Interim tests that the comparison could have made (measure::LookPlan).
  size_t looks = 1;
  double elapsed_s = 0;
};

/// The comparison for a reader: for every row the rate of each launch in its order, the rates of both sides,
/// their ratio with its interval, and the verdict in a sentence; then how it ended. `diff` is paired, has the
/// confidence of a single look, and as many launches on both sides as `turns` says. Rates are those of the
/// decisive percentile of the step time.
Document compare_tables(const Diff& diff, const Turns& turns);

}  // namespace lockstep::results
