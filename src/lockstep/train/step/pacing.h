#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/measure/stopping.h"

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
  /// Limit for the whole row, warm-up included. Empty: none if `steps` are given, otherwise a minute.
  std::optional<double> max_time_s;
  /// Steps in a sample (strategies::Traits::steps_alone): the pacing counts samples, and a sample is whole.
  int period = 1;

  /// Samples that cover so many steps.
  int samples(int of_steps) const { return (of_steps + period - 1) / period; }
  double time_limit_s() const {
    return max_time_s.value_or(steps ? std::numeric_limits<double>::infinity() : 60);
  }
  /// Whether both counts are given and no time, so that nothing needs to be decided.
  bool fixed() const { return warmup_steps && steps && !max_time_s; }
};

// In the functions below a step is a sample of `period` steps, except in expected_steps().

/// The end of warm-up in the steps so far: `--warmup`, or where the step time becomes stationary.
measure::SteadyState steady_state(std::span<const double> step_s, const PacingOptions& options);

/// Steps at the beginning that are warm-up whatever their times are, unless the time is over before.
size_t certain_warmup(const PacingOptions& options);

/// Steps to run before the first decision: all of them where their number is given, and no time.
size_t steps_to_first_decision(const PacingOptions& options);

/// Steps that a row is expected to take, warm-up included; a guess where their number is not given.
int expected_steps(const PacingOptions& options);

/// Why a row ended that has run the steps asked for.
std::string steps_were_run(const PacingOptions& options);

/// Decides by the step times of this rank so far, warm-up included, whether the row has ended; the same on
/// all ranks, except for the texts, which rank 0 has. With a group, the job's steps count, each as long as
/// the longest of the ranks' steps, and rank 0 decides for all. Collective over `group` unless it is null.
measure::StoppingDecision decide_pace(std::span<const double> step_s, double elapsed_s,
                                      const PacingOptions& options, comm::Communicator* group);

}  // namespace lockstep::train
