#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// The record of a row that ended before all of it was measured, or that goes on, from the step times that
/// its ranks have so far: samples, percentiles and images/s, without intervals. Empty before the first step.
///
/// `step_s[rank][step]`: seconds, warm-up included, of the first ranks of the row (launch::StepBoard::read).
/// Where these are not all of them, the samples have fewer ranks than the row, and an uncoupled row has no
/// images/s. `reason`: what ended it.
std::optional<results::Run> unfinished_run(const RowPlan& row, std::vector<std::vector<double>> step_s,
                                           const std::string& reason);

}  // namespace lockstep::train
