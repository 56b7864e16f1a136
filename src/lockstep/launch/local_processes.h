#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/launch/lost_rank.h"

namespace lockstep::launch {

struct LocalOptions {
  int ranks = 1;
  /// Start them through mpirun (backend mpi) instead of one by one.
  bool through_mpirun = false;
  /// Arguments of each rank, [0] the name; empty: those of this process.
  std::vector<std::string> command;
  /// Path of the program; empty: this process's own.
  std::string program;
  /// Added to the environment of the ranks.
  std::vector<std::pair<std::string, std::string>> environment;
  /// Called from the server's thread for the first stranger that connects to the job, with a sentence, and
  /// every ten seconds while ranks are missing, with a line that names them. May be empty.
  std::function<void(const std::string&)> on_stranger;
  std::function<void(const std::string&)> on_waiting;
  /// Silence after which a rank counts as lost; the ranks' own sessions should have the same.
  std::chrono::duration<double> timeout{kDefaultTimeout_s};
  /// Time that a rank may take to appear.
  std::chrono::duration<double> join_timeout{kDefaultJoinTimeout_s};
  /// Time for the other ranks to leave by themselves after one is lost, and again between SIGTERM and
  /// SIGKILL.
  std::chrono::duration<double> grace{2};
};

/// The outcome of a launch. Exit code 0 and no trouble if all ranks finished with 0; 130, 143 or 129 if this
/// process was told to end; else that of the rank that failed first, 1 for one that died.
struct Supervision : Trouble {
  /// A sentence about something that went wrong after the work was done; may be empty.
  std::string warning;
  /// The cause first, then its consequences.
  std::vector<LostRank> lost;
};

/// Makes communication libraries that this process opens later listen on the loopback interface or not at
/// all: Open MPI and UCX keep to shared memory, NCCL's ranks meet on `lo`. For a rank whose job is on one
/// host. Variables that the user has set stay. Call before other threads exist.
void keep_listeners_local();

/// Starts the ranks as processes on this host, hosts their server, watches over them, and returns when the
/// last has ended. Call it in the main thread (the ranks' life is tied to the thread that starts them); one
/// call at a time. While it runs, SIGINT, SIGTERM and SIGHUP end the ranks first (a second one at once, by
/// SIGKILL), and Ctrl-Z stops them too. No rank is alive when it returns or throws; the ranks die with this
/// process whatever way it ends. Through mpirun it starts that as a shell would, and the rest is mpirun's and
/// the ranks' own doing: rank 0 hosts the server, and the ranks report what goes wrong. Throws BackendMissing
/// if mpirun is needed and missing, Error if a rank cannot be started.
Supervision run_local_ranks(const LocalOptions& options);

}  // namespace lockstep::launch
