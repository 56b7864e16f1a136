#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/store.h"
#include "lockstep/replica/parameters.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/rows/fingerprint.h"

namespace lockstep::train {

/// Decides from the reports of all ranks whether they can go on together; no trouble if they can.
using AgreementCheck = std::function<Trouble(const std::vector<std::string>& by_rank)>;

/// Brings a report of every rank to rank 0 through the store, before there is a communicator, and throws the
/// trouble that `check` finds there as ConfigError on all ranks. Every rank of `world` calls it once per
/// store and topic.
void agree(const std::string& topic, const std::string& own, int rank, int world, comm::Store& store,
           const AgreementCheck& check);

/// Compares the plans of the ranks of a job, before there is a communicator: ranks that a launcher started
/// with different arguments would wait in different collectives forever. Every rank of `world` calls it once
/// per store. Throws ConfigError on all of them, naming the ranks and the differences.
void agree_on_plan(const Fingerprint& own, int rank, int world, comm::Store& store);

/// Compares the row and the network's names, shapes and initial values, bit for bit, before the first step of
/// a row. Collective: one all-gather of a hash, and only if that differs one of the whole fingerprints.
/// Throws ConfigError on all ranks, naming the ranks and the differences.
void agree_on_replica(const RowPlan& row, const replica::Parameters& parameters, comm::Communicator& group);

/// The reason why the replicas of `ranks` ranks cannot be compared after a step; empty where they can.
std::string why_not_comparable(const strategies::Traits& traits, int ranks);

/// Compares RowTrainee::state_hash of all ranks after `step` steps. Collective. Throws Error on all ranks
/// where one differs, naming step, ranks and strategy.
void require_equal_replicas(uint64_t state_hash, const RowPlan& row, int64_t step, comm::Communicator& group);

}  // namespace lockstep::train
