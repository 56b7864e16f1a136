#pragma once

#include <utility>
#include <vector>

#include "lockstep/recordings/recording.h"
#include "lockstep/results/record/recorded.h"

namespace lockstep::recordings {

/// Times of the steps of one rank outside of the profiler's window, each from the end of the one before it,
/// without those in which the profiler started and stopped.
std::vector<double> steps_outside(const RankFile& file);
/// Their number before the window, and how many are left out there.
std::pair<int, int> steps_left_out(const RankFile& file);
/// Likewise of those inside.
std::vector<double> steps_inside(const RankFile& file);

/// The longest of the ranks' steps of the same place; all ranks have as many.
std::vector<double> longest_steps(const std::vector<std::vector<double>>& ranks);

/// Sets the window's cost: the median step in it over that outside, with its interval. Nothing without steps.
void assign_window_cost(results::Recorded& recorded, const std::vector<double>& inside_s,
                        const std::vector<double>& outside_s);

}  // namespace lockstep::recordings
