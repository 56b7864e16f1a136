#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/strategies/strategy.h"

namespace lockstep::train {

/// One value each of what all ranks measured, as Measured::Over says, the same on all of them. `own`: of this
/// rank, over its `steps` steps; every rank has the same names. Collective over `group` unless it is null.
std::vector<strategies::Measured> combine_measured(std::vector<strategies::Measured> own, size_t steps,
                                                   comm::Communicator* group);

}  // namespace lockstep::train
