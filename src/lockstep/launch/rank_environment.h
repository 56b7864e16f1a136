#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lockstep::launch {

/// What started the ranks.
enum class Launcher { kProcesses, kMpirun, kSrun, kTorchrun };

/// "processes", "mpirun", "srun", "torchrun" (also for the same variables set by hand).
const char* to_string(Launcher launcher);

/// Which rank this process is, as told by whatever started it.
struct RankEnvironment {
  int rank = 0;
  int world = 1;
  /// Among the ranks on this host.
  int local_rank = 0;
  int local_world = 1;
  Launcher launcher = Launcher::kProcesses;
  /// A lockstep process started the ranks (possibly through mpirun), supervises them and prints their errors.
  bool supervised = false;
  /// Where the store is, as far as the environment says; empty and 0 where it does not (Rendezvous finds it).
  std::string master_addr;
  int master_port = 0;
  /// The parent or torchrun's agent hosts the store, so that rank 0 is a client of it like the others.
  bool store_hosted_for_us = false;
  /// "host:port" of the coordinator of the watch; empty: rank 0 is the coordinator.
  std::string watch_address;
  /// The same in all ranks of this job, different from that of other jobs. Letters, digits, '-', '_' and '.'.
  std::string job_id;
  /// The launcher has already bound each rank to processors of its own.
  bool bound_by_launcher = false;

  bool on_one_host() const { return local_world == world; }
};

/// The value of an environment variable, null when it is not set.
using Lookup = std::function<const char*(const char* name)>;

/// The rank that this process is, or nothing when it was not started as one. Looks for, first hit wins: what
/// a lockstep parent sets (LOCKSTEP_*), torchrun's variables (RANK, WORLD_SIZE, ... also when set by hand),
/// Open MPI's (OMPI_COMM_WORLD_*), Slurm's. The variables that a Slurm allocation leaves in a shell do not
/// make it a rank, only those of a step with several tasks do. Throws ConfigError that names the variable for
/// a value that is malformed, missing, or contradicts another.
std::optional<RankEnvironment> detect_environment(const Lookup& lookup);

/// The same from this process's environment.
std::optional<RankEnvironment> detect_environment();

}  // namespace lockstep::launch
