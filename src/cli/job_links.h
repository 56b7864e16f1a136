#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/topology/rank_gpus.h"
#include "lockstep/train/rows/facts.h"

#include "rank_job.h"

namespace lockstep::cli {

/// How the ranks of a job speak to each other.
struct JobLinks {
  /// All of them, of what lies in host memory, and of everything where `data` is null.
  std::unique_ptr<comm::Communicator> control;
  /// Those that rows need, of what lies on their GPUs, where the backend takes nothing else; null on the
  /// others.
  std::unique_ptr<comm::Communicator> data;
};

/// That every rank is about to do the same: the command, its plan, and with what. Throws ConfigError on all
/// of them, naming the ranks and what differs. Collective over the job, before anything else that is.
void agree_on(const char* command, const train::Facts& plan, const RankOptions& options, const JobRank& rank);

/// Compares the GPUs of the ranks that rows need. Throws ConfigError on all ranks where two have the same and
/// were not told that they may. [rank] on rank 0; empty elsewhere, and on CPUs. Collective over the job.
std::vector<topology::RankGpu> compare_gpus(const RankJob& job, const JobRank& rank);

/// Collective over the job.
JobLinks connect_all(const RankJob& job, const JobRank& rank);

/// Throws BackendMissing where what the backend needs beside itself to carry a GPU's memory is not there.
void require_helpers(const RankOptions& options);

}  // namespace lockstep::cli
