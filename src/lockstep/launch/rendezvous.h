#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/comm/store.h"
#include "lockstep/launch/guarded_folder.h"
#include "lockstep/launch/job_link.h"
#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {

// The meeting of the ranks of a job, in order:
//
//  1. Each rank reads its place, and as much as there is of the server's address, from its environment
//     (rank_environment.h). The server (job_server.h) is in the lockstep parent, else in rank 0.
//  2. The port and the token. Ranks of one host: rank 0 listens on the loopback address, on the launcher's
//     port or on any free one, and writes "PORT PID START TOKEN\n" to the file `server` in a folder that only
//     the user may enter, whose name begins with job and user and ends as nobody can foresee; the others read
//     it as soon as it is there. The process id with its start time tells the file of this job from one that
//     a killed job left behind. Ranks that
//     torchrun started on several hosts: rank 0 listens on any free port and writes "PORT TOKEN" under
//     "lockstep/JOB/server" into the store of torchrun's agent, which several commands may use one after the
//     other; the token is left out where the user gave one. Other ranks of several hosts: the launcher's
//     port, else 12000 + hash(job id) mod 20000, and the token of their environment, if there is one.
//  3. Every rank connects to the server and proves that it knows the token (channel.h). The server announces
//     when all have come, or ends the job for all if one cannot come, or does not in time.
//  4. From then on the server watches over the ranks and is their store, for their agreement on the plan, the
//     communication backends, and ranks that wait until the rows are done. Rank 0 ends last.

/// Connects to the store of torchrun's agent within `timeout`. Throws CommError.
using OpenAgentStore = std::function<std::shared_ptr<comm::Store>(const std::string& host, int port,
                                                                  std::chrono::duration<double> timeout)>;

/// Name or address of rank 0's host, among several. Throws ConfigError if there is none that this host can
/// find: at once, for otherwise rank 0 would wait for ranks that cannot find it.
std::string host_of_rank_0(const RankEnvironment& environment);

/// Finds the server of a job from its environment (step 2 above). The private folder is below the temporary
/// folder.
class Rendezvous {
 public:
  /// `open_agent_store` is needed where the environment uses_agent_store(). Throws ConfigError if ranks on
  /// several hosts cannot know the address, or its host.
  explicit Rendezvous(const RankEnvironment& environment, OpenAgentStore open_agent_store = {});

  /// Whether this process is to host the server.
  bool hosts_server() const { return hosts_; }

  /// For the host of the server: the address to listen on, port 0 for any, with the token to ask for. For the
  /// others: the address to connect to, once it is known; throws CommError.
  Address address(std::chrono::duration<double> timeout);

  /// For the host of the server: publishes its port and the token within `timeout`. Does nothing if the
  /// others know both already.
  void publish(int port, std::chrono::duration<double> timeout);

 private:
  /// Empty if the file is not there yet, or is another job's.
  std::optional<Address> read_published() const;

  const bool hosts_;
  Address known_;
  /// The beginning of the folder's name; empty if the others find the server another way.
  std::string meeting_;
  /// Folder of the file that this process has published, and removes with itself.
  std::optional<GuardedFolder> folder_;
  /// Key in the agent's store; empty if that is not used.
  std::string key_;
  bool token_given_ = false;
  OpenAgentStore open_agent_store_;
  int agent_port_ = 0;
};

}  // namespace lockstep::launch
