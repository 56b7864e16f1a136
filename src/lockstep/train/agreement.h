#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/store.h"
#include "lockstep/replica/parameters.h"
#include "lockstep/train/facts.h"

namespace lockstep::train {

/// Compares what the ranks of a job are about to do, before there is a communicator: ranks that a launcher
/// started with different arguments would wait in different collectives for good. Every rank of `world` calls
/// it once per store. Throws ConfigError on all of them, naming the ranks and what differs.
void agree_on_plan(const Facts& own, int rank, int world, comm::Store& store);

/// Compares the row and the network's names, shapes and initial values, bit for bit, before the first step of
/// a row. Collective: one all-gather of a hash; where that differs, what it was made of follows. Throws
/// ConfigError on all ranks, naming the ranks and what differs.
void agree_on_replica(const RowPlan& row, const replica::Parameters& parameters, comm::Communicator& group);

}  // namespace lockstep::train
