#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/comm/store.h"
#include "lockstep/launch/job_store.h"
#include "lockstep/launch/meeting.h"
#include "lockstep/launch/rank_environment.h"

// Part of the target lockstep::tcp_store, the one piece of launch that needs LibTorch.

namespace lockstep::launch {

/// The store of torchrun's agent at host:port, a c10d::TCPStore, of which the job uses the keys below its id.
/// A waiting get() sleeps in the kernel and does not keep others from using the store. A call that finds the
/// server gone throws PeerLostError. `timeout` is for set and add. Throws TimeoutError if nobody answers
/// within `join_timeout`.
std::unique_ptr<comm::Store> connect_agent_store(const std::string& host, int port, const std::string& job_id,
                                                 std::chrono::duration<double> join_timeout,
                                                 std::chrono::duration<double> timeout);

/// The job's store: that of torchrun's agent, which asks nobody for a token, for its ranks on several hosts;
/// else the job's own. The rest as join_job_store().
JoinedStore join_store(const RankEnvironment& environment, const Patience& patience,
                       StoreServer::OnStranger on_stranger = {});

/// In place of join_store() on a rank that cannot come, as decline_job_store().
std::string decline_store(const RankEnvironment& environment, const LostRank& why,
                          std::chrono::duration<double> limit);

}  // namespace lockstep::launch
