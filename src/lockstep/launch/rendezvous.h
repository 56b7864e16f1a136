#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {

// The meeting of the ranks of a job, in order:
//
//  1. Each rank reads its place and the address of the store from its environment (rank_environment.h). The
//     store is a TCP server that the lockstep parent or torchrun's agent runs, else rank 0.
//  2. The port, if the launcher did not tell one. Ranks of one host: rank 0 listens on any free port and
//     writes "PORT PID START\n" to the file `store` in a folder that only the user may write to, named after
//     job and user; the others read it as soon as it is there. The process id with its start time tells the
//     file of this job from one that a killed job left behind. Ranks of several hosts: 12000 + hash(job id)
//     mod 20000.
//  3. Every rank connects to the store. Its keys begin with "lockstep/JOB/", so that jobs can share
//     torchrun's.
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

  /// For the host of the store: the address to listen on, port 0 for any. For the others: the address to
  /// connect to, once it is known; throws TimeoutError.
  Address address(std::chrono::duration<double> timeout);

  /// For the host of the store: publishes its port. Does nothing if the others know it already.
  void publish(int port);

 private:
  /// 0 if the file is not there yet, or is another job's.
  int read_port() const;

  const bool hosts_;
  Address known_;
  /// The folder of the published port; empty if the others know it already.
  std::filesystem::path folder_;
  bool published_ = false;
};

}  // namespace lockstep::launch
