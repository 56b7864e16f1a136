#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {

// The meeting of the ranks of a job, in order:
//
//  1. Each rank reads its place and the address of the store from its environment (rank_environment.h). The
//     store is a server that the lockstep parent runs, else rank 0 (job_store.h). Ranks that torchrun started
//     on several hosts use its agent's (tcp_store.h).
//  2. The port and the token. Ranks of one host: rank 0 listens on the loopback address, on the launcher's
//  port
//     or on any free one, and writes "PORT PID START TOKEN\n" to the file `store` in a folder that only the
//     user may enter, named after job and user; the others read it as soon as it is there. The process id
//     with its start time tells the file of this job from one that a killed job left behind. Ranks of several
//     hosts: the launcher's port, else 12000 + hash(job id) mod 20000, and the token of their environment, if
//     there is one.
//  3. Every rank connects to the store and proves that it knows the token (reception.h). In the agent's
//  store,
//     keys begin with "lockstep/JOB/".
//  4. The ranks meet there (meeting.h): rank 0 waits for all, and ends the job for all if one cannot come.
//  The
//     keys from here on begin with the number of the meeting as well.
//  5. Without a parent, rank 0 starts the coordinator of the watch, listening on a free port, and sets
//     `watch` to "HOST:PORT"; the others read it. All join the watch (watch_message.h).
//  6. From then on the store serves the ranks' agreement on the plan, the communication backends, and ranks
//     that wait until the rows are done. It must live until the last of these; rank 0 ends last.

struct Address {
  std::string host;
  int port = 0;
  /// The token that the store asks for; empty if there is none.
  std::string token = {};
};

/// Finds the store of a job from its environment (steps 2 and 3 above). The private folder is below the
/// temporary folder.
class Rendezvous {
 public:
  /// Throws ConfigError if ranks on several hosts cannot know the address.
  explicit Rendezvous(const RankEnvironment& environment);
  /// Removes the published file.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Whether this process is to host the store.
  bool hosts_store() const { return hosts_; }

  /// For the host of the store: the address to listen on, port 0 for any, with the token to ask for. For the
  /// others: the address to connect to, once it is known; throws TimeoutError.
  Address address(std::chrono::duration<double> timeout);

  /// For the host of the store: publishes its port and the token. Does nothing if the others know both
  /// already.
  void publish(int port);

 private:
  /// Empty if the file is not there yet, or is another job's.
  std::optional<Address> read_published() const;

  const bool hosts_;
  Address known_;
  /// The folder of what is published; empty if the others know it already.
  std::filesystem::path folder_;
  bool published_ = false;
};

}  // namespace lockstep::launch
