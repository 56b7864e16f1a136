#pragma once

#include <optional>
#include <vector>

#include "lockstep/measure/phases.h"

namespace lockstep::results {

/// The share of a loss that a cause must explain to be named.
inline constexpr double kCovers = 0.8;

/// The rank that the others wait for, and what takes it longer than them.
struct SlowRank {
  /// Its place among the ranks.
  size_t place = 0;
  /// "forward pass", or "step without communication" where several phases are longer.
  const char* phase = "";
  /// A sentence.
  const char* advice = "";
  /// By how much, in the median step, in seconds; and the part of it that the others waited for.
  double longer_s = 0;
  double lost_s = 0;
  /// Whether chance alone would bring that once in 700 times.
  bool is_certain = false;
};

/// Finds it by the phases of every step of all ranks; empty if no phases of it explain 80 % of the waiting.
/// Medians decide, since one step that the system disturbed may hold more waiting than ten others.
std::optional<SlowRank> find_slow_rank(const std::vector<measure::RankBreakdown>& ranks);

}  // namespace lockstep::results
