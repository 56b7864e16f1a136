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

/// c10d's TCPStore. A waiting get() sleeps in the kernel and does not keep others from using the store. A
/// call that finds the server gone throws PeerLostError.
class TcpStore : public comm::Store {
 public:
  /// The port that it listens on, or is connected to.
  virtual int port() const = 0;
};

/// The store at host:port; as server it listens there (port 0: any free one) until destroyed. `timeout` is
/// for connecting and for set and add. Throws ConfigError that names the port if it is in use, TimeoutError
/// if nobody answers.
std::unique_ptr<TcpStore> make_tcp_store(const std::string& host, int port, bool is_server,
                                         std::chrono::duration<double> timeout);

/// The job's store: that of torchrun's agent, which asks nobody for a token, for its ranks on several hosts;
/// else the job's own. The rest as join_job_store().
JoinedStore join_store(const RankEnvironment& environment, const Patience& patience,
                       StoreServer::OnStranger on_stranger = {});

/// In place of join_store() on a rank that cannot come, as decline_job_store().
std::string decline_store(const RankEnvironment& environment, const LostRank& why,
                          std::chrono::duration<double> limit);

}  // namespace lockstep::launch
