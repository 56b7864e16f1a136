#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/store.h"
#include "lockstep/replica/parameters.h"
#include "lockstep/train/rows/facts.h"

namespace lockstep::train {

/// Why the ranks cannot go on together, from what each of them told; nothing where they can.
using Judge = std::function<std::optional<ConfigError>(const std::vector<std::string>& by_rank)>;

/// Tells rank 0 what every rank has to say of a topic, before there is a communicator, and lets it judge:
/// what `judge` finds there is thrown on all ranks. Every rank of `world` calls it once per store and topic.
void agree(const std::string& topic, const std::string& own, int rank, int world, comm::Store& store,
           const Judge& judge);

/// Compares what the ranks of a job are about to do, before there is a communicator: ranks that a launcher
/// started with different arguments would wait in different collectives for good. Every rank of `world` calls
/// it once per store. Throws ConfigError on all of them, naming the ranks and what differs.
void agree_on_plan(const Facts& own, int rank, int world, comm::Store& store);

/// Compares the row and the network's names, shapes and initial values, bit for bit, before the first step of
/// a row. Collective: one all-gather of a hash; where that differs, what it was made of follows. Throws
/// ConfigError on all ranks, naming the ranks and what differs.
void agree_on_replica(const RowPlan& row, const replica::Parameters& parameters, comm::Communicator& group);

}  // namespace lockstep::train
