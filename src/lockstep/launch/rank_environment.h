#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/secret.h"

namespace lockstep::launch {

/// The program that started the ranks.
enum class Launcher { kProcesses, kMpirun, kSrun, kTorchrun };

/// "processes", "mpirun", "srun", "torchrun" (also for the same variables set by hand).
const char* to_string(Launcher launcher);

/// A job, as its processes know it.
struct JobKey {
  /// Equal in all ranks of this job and different in other jobs. Letters, digits, '-', '_' and '.'.
  std::string job_id;
  /// The secret of this job: the parent's, the user's (base/secret.h) or mpirun's. Empty where there is none;
  /// ranks of one host then agree on one (rendezvous.h).
  std::string token;
  /// Number of ranks.
  int world = 1;
};

/// This process's place among the ranks, by the account of its launcher.
struct RankEnvironment : JobKey {
  int rank = 0;
  /// Place among the ranks on this host.
  int local_rank = 0;
  int local_world = 1;
  Launcher launcher = Launcher::kProcesses;
  /// A lockstep process started the ranks (possibly through mpirun). It has checked the command, and prints
  /// the results that they keep for it.
  bool supervised = false;
  /// Address of the job's server as far as the environment has it, else empty and 0 (Rendezvous finds it).
  std::string master_addr;
  int master_port = 0;
  /// Addresses at which the launcher runs, in digits, with commas between them, mostly on rank 0's host: for
  /// ranks on several hosts whose MASTER_ADDR nobody gave. Empty where none is known.
  std::string launcher_addr;
  /// torchrun's agent hosts a store, at that address.
  bool has_agent_store = false;
  /// The launcher has already bound each rank to processors of its own.
  bool bound_by_launcher = false;

  bool on_one_host() const { return local_world == world; }
  /// Whether that process hosts the job's server, watches over the ranks and prints their errors. Where a
  /// launcher started them, rank 0 does.
  bool served_by_parent() const { return supervised && launcher == Launcher::kProcesses; }
  /// Whether this rank reports to the user that rank 0 is missing or lost: one of each host does, rank 1 on
  /// rank 0's.
  bool speaks_for_host() const { return rank == 1 || local_rank == 0; }
  /// Whether the ranks find the job's server through the store of torchrun's agents. Those of one host do
  /// without: it is open to everybody.
  bool uses_agent_store() const { return has_agent_store && !on_one_host(); }
};

using Lookup = VariableLookup;

/// The rank that this process is; empty if it was not started as one. Looks for these, the first wins: the
/// variables of a lockstep parent (LOCKSTEP_*), torchrun's (RANK, WORLD_SIZE, ... also when set by hand),
/// Open MPI's (OMPI_COMM_WORLD_*), Slurm's. The variables that a Slurm allocation leaves in a shell do not
/// make it a rank, only those of a step with several tasks do. Throws ConfigError that names the variable for
/// a value that is malformed, missing, or contradicts another.
std::optional<RankEnvironment> detect_environment(const Lookup& lookup);

/// Looks in this process's environment.
std::optional<RankEnvironment> detect_environment();

/// Tasks of each node, from Slurm's "2(x3),1": 2, 2, 2, 1. Throws ConfigError that names `variable`.
std::vector<int> expand_slurm_tasks(const std::string& variable, const std::string& text);

/// The first host, from Slurm's "node[03-05,9],login1": node03. Throws ConfigError that names `variable`.
std::string first_slurm_host(const std::string& variable, const std::string& text);

}  // namespace lockstep::launch
