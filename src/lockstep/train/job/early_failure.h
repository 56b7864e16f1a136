#pragma once

#include <exception>

#include "lockstep/launch/rank_environment.h"

namespace lockstep::train {

/// For a rank that fails before run_job() has brought it to the others: tells the process that speaks for the
/// job, the lockstep parent or rank 0, which then ends the job at once, where otherwise all would wait for
/// this rank. Returns whether that process gives the user this very error; if not, the caller does. Takes
/// five seconds at most. Never throws.
bool told_by_another(const launch::RankEnvironment& environment, const std::exception& error) noexcept;

}  // namespace lockstep::train
