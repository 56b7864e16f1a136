#pragma once

#include <vector>

#include "lockstep/inputs/input.h"
#include "lockstep/train/sweep.h"

namespace lockstep::train {

/// What rank 0 of a row asks of its input; where one rank has the devices of all, for the batch of all.
inputs::InputOptions input_options_of(const RowPlan& row);

/// Throws ConfigError where the input needs data and has none, or has data that do not suit a row: other
/// classes, too few samples; and Error that names a file which cannot be read.
void check_inputs(const std::vector<RowPlan>& rows);

}  // namespace lockstep::train
