#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// The step times that the run's percentiles are over (representative_steps), one list per launch, in order.
std::vector<std::vector<double>> representative_steps_by_launch(const Run& run);

/// The number of launches of the run's samples.
int launches(const Run& run);

/// Images per second of the whole job in each launch, from its samples: of an uncoupled run the sum over its
/// ranks. 0 for a launch without steps.
std::vector<double> launch_rates(const Run& run);

/// Sets step_interval_s and rate_interval from the run's samples: over its launches where there are several,
/// within the one otherwise. An unfinished run has none, for that reason.
void assign_intervals(Run& run);

/// Adds another launch of the same command to `record`: samples one after the other, throughput and
/// percentiles as geometric means of the launches', intervals over launches, breakdown and other explanations
/// from the later launch. Runs match if they are the same row (same_row); runs of `launch` that match none,
/// as unfinished runs do, are added. Throws ConfigError where the two were not measured in the same way
/// (machine, library).
void add_launch(RunRecord& record, RunRecord launch);

}  // namespace lockstep::results
