#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/lane_keeper.h"
#include "lockstep/topology/rank_gpus.h"
#include "lockstep/train/job/job_plan.h"
#include "lockstep/train/job/run_job.h"
#include "lockstep/train/rows/fingerprint.h"
#include "lockstep/train/rows/rank_group.h"

namespace lockstep::train {

/// Makes sure that all ranks are about to do the same, with GPUs that may be used together: the command, its
/// plan and the job's options are compared, then the GPUs of the ranks that rows need. Throws ConfigError on
/// all ranks, naming the ranks and what differs. Returns those GPUs, [rank], on rank 0 of a job on GPUs,
/// nothing elsewhere. Collective over the job, before anything else that is.
std::vector<topology::RankGpu> agree_on(const char* command, const Fingerprint& plan, const JobPlan& job,
                                        const JobRank& rank);

/// Throws BackendMissing where a helper of the backend is missing that carries a GPU's memory.
void require_helpers(const JobOptions& options);

/// Connects all ranks of the job, for host memory.
comm::ConnectOptions connect_options(const JobOptions& options, const JobRank& rank);

/// The communicators of a job: one of all ranks, and one of the first N ranks for every smaller N that a row
/// needs. All of them are made at the start, because every rank of the job takes part in making each.
/// Communicators that strategies make from them are reused as long as consecutive rows have the same ranks.
class JobLinks {
 public:
  /// Collective over the job. `job` and `rank` outlive this.
  JobLinks(const JobPlan& job, const JobRank& rank);

  using RowWork = std::function<void(const RowPlan& row, const RankGroup& group)>;
  /// Calls `work` on the ranks that train in job.rows[index], with the row as this rank trains it. The other
  /// ranks sleep at the store until rank 0 is through: a blocking call of a communication library may poll,
  /// and would disturb the measurement. Where a GPU's memory runs out, throws Error with the batch that would
  /// fit. A row may run again, with another `turn`. Collective over the job. Throws ConfigError where a row
  /// is hierarchical and ranks of a host cannot share memory.
  void run_row(size_t index, const RowWork& work, int turn = 1);

  /// Waits for all ranks. Collective over the job.
  void meet() { control_->barrier()->wait(); }

 private:
  /// Null communicators where the row's one rank has nobody to talk to.
  RankGroup group_of(size_t index) const;
  /// The one of the first `ranks` ranks, which this rank belongs to.
  comm::LaneKeeper* control_of(int ranks) const;
  /// Drops communicators that only rows of other numbers of ranks have used.
  void drop_lanes_except(int ranks);

  const JobPlan& job_;
  const JobRank& rank_;
  /// All ranks. Carries host memory, and everything where there is no data_.
  std::unique_ptr<comm::LaneKeeper> control_;
  /// The ranks that rows need, for memory of their GPUs, where the backend carries nothing else; null on the
  /// others.
  std::unique_ptr<comm::Communicator> data_;
  /// By number of ranks; null on ranks that do not belong to them.
  std::map<int, std::unique_ptr<comm::LaneKeeper>> control_of_;
  std::map<int, std::unique_ptr<comm::Communicator>> data_of_;
};

}  // namespace lockstep::train
