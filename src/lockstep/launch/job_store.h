#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/store.h"
#include "lockstep/launch/meeting.h"
#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {

// The store of a job, for the processes that know its token (reception.h): JSON lines over TCP, one request
// at a time on a connection. Values travel as hexadecimal digits.
//
//   client                                server
//    |-- hello {visit}, see reception.h ->|  visit: a random number of the process; a rank has one visit,
//    |                                    |  and another process of its number is told to come again, when
//    |                                    |  this job has ended
//    |-- set {key, value} --------------->|
//    |<---------------------------- set --|
//    |-- get {key} ---------------------->|
//    |<---------------------- got {value}-|  as soon as the key is set
//    |-- add {key, amount} -------------->|
//    |<---------------------- sum {value}-|

/// The processes that belong to a job.
struct JobMembers {
  std::string job_id;
  /// Empty in a job without one.
  std::string token;
  int world = 1;
};

/// Serves a store from a thread of its own until destroyed.
class StoreServer {
 public:
  /// Called once, from the thread of the server, for the first stranger that connects, with a sentence about
  /// it.
  using OnStranger = std::function<void(const std::string&)>;

  /// Listens as listen_tcp() does, and throws as it does.
  StoreServer(const std::string& host, int port, const JobMembers& job, OnStranger on_stranger = {});
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Rank `rank`'s end of the store at host:port, which has answered within `join_timeout`. A waiting get()
/// sleeps and does not keep others from using the store. `timeout` is for set and add. A call that finds the
/// server gone throws PeerLostError. Throws as enter() does (reception.h).
std::unique_ptr<comm::Store> connect_store(const std::string& host, int port, const JobMembers& job, int rank,
                                           std::chrono::duration<double> join_timeout,
                                           std::chrono::duration<double> timeout);

/// A rank's way into its job.
struct JoinedStore {
  std::shared_ptr<comm::Store> store;
  /// The token of the job; empty if it has none.
  std::string token;
};

/// The store that the parent or rank 0 of this job hosts, found through Rendezvous, once all ranks have met
/// there (meeting.h). Every rank calls it. A job of one rank gets a store of its own process. Throws as
/// meet(), TurnedAway for another token, and ConfigError that names a port in use.
JoinedStore join_job_store(const RankEnvironment& environment, const Patience& patience,
                           StoreServer::OnStranger on_stranger = {});

/// In place of join_job_store() on a rank that cannot come: decline() in the job's store. Throws CommError
/// where rank 0 cannot be reached within `limit`.
std::string decline_job_store(const RankEnvironment& environment, const LostRank& why,
                              std::chrono::duration<double> limit);

/// Calls `connect`, with the time that it may take, until it returns a store; errors of communication
/// (TimeoutError, CommError) mean that none is there yet. Throws TimeoutError with the last of them;
/// TurnedAway at once.
std::shared_ptr<comm::Store> connect_patiently(
    const RankEnvironment& environment, const Patience& patience,
    const std::function<std::shared_ptr<comm::Store>(std::chrono::duration<double>)>& connect);

}  // namespace lockstep::launch
