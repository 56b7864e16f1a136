#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/measure/interval.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

// The one place that decides which numbers cannot be true. All else prints what it says.

/// The run's images/s with its interval; empty where it has none.
std::optional<measure::Bounded> bounded_rate(const Run& run);

/// Whether a factor of the efficiency is above 110 %, beyond its interval; none can be above 100 %.
bool is_impossible_factor(double value, const std::optional<double>& half_width);

/// Why the run's factors cannot be true; empty where nothing speaks against them.
std::string doubt_of_factors(const Run& run);

/// Whether a ratio differs from 1 by more than its noise and by 5 % or more; without an interval, by 20 %.
bool differs_from_1(double ratio, const std::optional<measure::Interval>& interval);

/// Sets `again` of a baseline from the steps that it made after the last row of its network.
void assign_again(Run& baseline, std::span<const double> step_s);

/// Whether the baseline changed between its two measurements by more than their intervals.
bool drifted(const Run& baseline);

/// Sets Run::doubt of every finished run (an efficiency above 100 % of one rank alone, a rate above that of
/// `independent`, each beyond its interval or, where the baseline came out the same when it was measured
/// again, by more than 20 % and 10 %; or a baseline that drifted by 10 %). Call after baselines were
/// assigned or read.
void assign_doubts(RunRecord& record);

/// The rows that a doubt concerns, ascending: those in doubt, their baselines and controls.
std::vector<size_t> disturbed_rows(const RunRecord& record);

/// The cores that the run's ranks leave free on the host with the fewest; below 0 they take turns. Empty
/// where the record does not say.
std::optional<int> spare_cores(const RunRecord& record, const Run& run);

}  // namespace lockstep::results
