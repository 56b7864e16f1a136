#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// The run's step times that its percentiles are over (representative_steps), one list per launch, in order.
std::vector<std::vector<double>> representative_steps_by_launch(const Run& run);

/// How many launches the run's samples come from.
int launches(const Run& run);

/// Images per second of the whole job in each launch, from its samples: of an uncoupled run the sum over its
/// ranks. 0 for a launch without steps.
std::vector<double> launch_rates(const Run& run);

/// Sets step_interval_s and rate_interval from the run's samples: over its launches where there are several,
/// within the one otherwise. An unfinished run has none, for that reason.
void assign_intervals(Run& run);

/// Adds another launch of the same command to `record`: samples one after the other, throughput and
/// percentiles as geometric means of the launches', intervals over launches, breakdown and what else explains
/// it from the later launch. Runs are matched by what they are (same_row); those of `launch` that `record`
/// lacks are added, and unfinished ones, which are pooled with nothing. Throws ConfigError where the two were
/// not measured in the same way (network, machine, library).
void add_launch(RunRecord& record, RunRecord launch);

}  // namespace lockstep::results
