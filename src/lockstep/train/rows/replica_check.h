#pragma once

#include <cstdint>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// Why the replicas of so many ranks cannot be held against each other after a step; empty where they can.
std::string why_not_comparable(const strategies::Traits& traits, int ranks);

/// Compares RowTrainee::state_hash of all ranks after `step` steps. Collective. Throws Error on all ranks
/// where one differs, naming step, ranks and strategy.
void require_equal_replicas(uint64_t state_hash, const RowPlan& row, int64_t step, comm::Communicator& group);

}  // namespace lockstep::train
