#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep::train {

/// How many steps a row takes.
struct PacingOptions {
  /// `--warmup`; empty: warm-up ends where the step time has become stationary.
  std::optional<int> warmup_steps;
  /// `--steps`; empty: as many as the precision takes.
  std::optional<int> steps;
  /// Half the width of the 95 % interval of the median, as a share of it, at which enough was measured.
  double precision_target = 0.02;
  /// Of the whole row, warm-up included; only where `steps` is empty.
  double max_time_s = 60;

  /// Whether both counts are known beforehand, so that nothing need be decided.
  bool fixed() const { return warmup_steps && steps; }
};

/// What a look at the steps so far decided; the same on all ranks but for the texts, which rank 0 has.
struct PacingDecision {
  bool stop = false;
  /// Steps to run before the next look; 0 with `stop`.
  size_t further_steps = 0;
  /// So many of the steps so far are warm-up.
  size_t warmup_steps = 0;
  std::string warmup_choice;
  std::string stopped;
};

/// Steps to run before the first look.
size_t steps_to_first_look(const PacingOptions& options);

/// Looks at the step times of one rank so far, warm-up included. With a group the step of the job is what
/// counts (the longest of the ranks' steps): rank 0 decides, and tells the others. Collective over `group`
/// unless it is null.
PacingDecision look(std::span<const double> step_s, double elapsed_s, const PacingOptions& options,
                    comm::Communicator* group);

}  // namespace lockstep::train
