#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/measure/steady_state.h"

namespace lockstep::train {

/// Decides how many steps a row takes.
struct PacingOptions {
  /// `--warmup`; empty: warm-up ends where the step time becomes stationary.
  std::optional<int> warmup_steps;
  /// `--steps`; empty: as many as the precision requires.
  std::optional<int> steps;
  /// Half the widths of the 95 % intervals of median and mean, as shares of them, at which measuring ends.
  double precision_target = 0.02;
  /// Least seconds of measured steps before that.
  double min_time_s = 2;
  /// Limit for the whole row, warm-up included; used only if `steps` is empty.
  double max_time_s = 60;

  /// Whether both counts are given, so that nothing needs to be decided.
  bool fixed() const { return warmup_steps && steps; }
};

/// The decision after a look at the steps so far; the same on all ranks, except the texts, which rank 0 has.
struct PacingDecision {
  bool stop = false;
  /// Steps to run before the next look; 0 with `stop`.
  size_t further_steps = 0;
  /// Steps at the beginning that are warm-up.
  size_t warmup_steps = 0;
  std::string warmup_choice;
  std::string stopped;
  /// Why the steps after warm-up are not settled (measure::SteadyState::unsettled_reason); empty if they are.
  std::string unsettled;
};

/// Where warm-up ends in the steps so far: as told, or where the step time becomes stationary.
measure::SteadyState steady_state(std::span<const double> step_s, const PacingOptions& options);

/// Steps at the beginning that are warm-up whatever their times are; fewer than steps_to_first_look().
size_t certain_warmup(const PacingOptions& options);

/// Steps to run before the first look.
size_t steps_to_first_look(const PacingOptions& options);

/// Looks at the step times of this rank so far, warm-up included. With a group, the job's steps count, each
/// as long as the longest of the ranks' steps; rank 0 decides for all. Collective over `group` unless it is
/// null.
PacingDecision look(std::span<const double> step_s, double elapsed_s, const PacingOptions& options,
                    comm::Communicator* group);

}  // namespace lockstep::train
