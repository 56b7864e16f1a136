#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/launch/binding.h"
#include "lockstep/train/job/job_site.h"
#include "lockstep/train/rows/row_estimate.h"

namespace lockstep::train {

/// A row that this site cannot run, and why.
struct RowLeftOut {
  RowPlan row;
  std::string reason;
};

/// A job that has a place for each of its ranks, ready to be checked and run.
struct JobPlan {
  JobSite site;
  /// The rows that run. Those that train all devices in one process know the processors of each.
  std::vector<RowPlan> rows;
  std::vector<RowLeftOut> left_out;
  /// The most ranks that a row has. Further ranks of a launcher take no part.
  int ranks = 1;
  /// Threads and processors of the ranks on this host.
  launch::BindingPlan binding;

  /// The most ranks of the job on one host.
  int local_ranks() const { return site.environment ? site.environment->local_world : ranks; }
};

/// Gives every rank its threads and processors, and every row its devices. A row that cannot run here is an
/// error if `strategies`, as the user gave them, names its strategy; if the row only came with `all` it is
/// left out. Throws ConfigError.
JobPlan plan_job(JobSite site, std::vector<RowPlan> rows, const std::vector<std::string>& strategies);

/// The same for `ranks` ranks without rows. Throws ConfigError where a launcher started fewer.
JobPlan plan_job(JobSite site, int ranks);

/// Spreads those of the job's `ranks` ranks that are on this host over its cores, with so many threads each
/// (0: the default). Throws ConfigError that names --threads.
launch::BindingPlan bind_ranks(const JobSite& site, int ranks, int threads);

/// Throws BackendMissing, with what to install, where the device or the backend cannot be used, and
/// ConfigError where each rank is to have a GPU of its own and this host has fewer.
void check_backend(const JobPlan& job);

/// Throws ConfigError where a row does not fit into the memory of this host or of its GPUs. Returns warnings
/// of rows on GPUs for which the host seems to have too little (see check_memory in row_estimate.h). Sets
/// LibTorch's number of threads to a rank's, because the estimate runs the network once.
std::vector<std::string> check_memory(const JobPlan& job);

/// Raises this process's soft limit on open files as far as the hard limit, and a million, allow. Returns the
/// limit that holds. Processes started later inherit it.
int64_t raise_open_files_limit();

constexpr const char* kShortOfMemoryAdvice =
    "Use fewer ranks if they end for want of memory; a virtual machine may get more when it needs it.";

}  // namespace lockstep::train
