#pragma once

#include <string>
#include <vector>

#include "lockstep/recordings/rank_steps.h"

namespace lockstep::recordings {

/// The steps of one rank with its place in the job.
struct PlacedSteps {
  int rank = 0;
  /// Empty: not known.
  std::string host;
  RankSteps steps;
};

/// The steps that all ranks have, as measure::break_down takes them.
struct JobSteps {
  std::vector<measure::RankStamps> ranks;
  /// [rank]: sums over these steps.
  std::vector<results::RecordedWork> work;
  /// [rank][step]
  std::vector<std::vector<int64_t>> input_elements;
  /// What the collectives of every step are.
  std::vector<results::RecordedCollective> collectives;
  std::vector<results::RecordedGroup> groups;
  /// Steps that not all ranks have, or whose collectives are others than in most steps.
  int irregular = 0;
  /// Assumptions on clocks, and what they could not be compared by; each a sentence.
  std::vector<std::string> notes;
};

/// Matches steps across ranks by the profiler's number of the step, else by the times of their ends;
/// collectives by group and order, of groups in which all these ranks are. Ranks on one host share a clock.
/// The clocks of others are compared with rank 0's by collectives that none can leave before all have come:
/// the offset is the middle of what they allow, its error half the width. Ranks without any collective need
/// no common step: each has as many of its own. Throws Error where no step is common to others. `ranks`: in
/// order, at least one.
JobSteps put_together(std::vector<PlacedSteps> ranks);

}  // namespace lockstep::recordings
