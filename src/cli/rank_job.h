#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/binding.h"
#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/progress.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/launch/rank_session.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/topology/machine.h"
#include "lockstep/train/rows/sweep.h"

#include "rank_options.h"

namespace lockstep::cli {

/// One rank of a job, in the thread that is to do its work.
struct JobRank {
  launch::RankEnvironment environment;
  comm::Store& store;
  launch::Progress& progress;
  /// The number of its GPU among those that its process sees; -1: it computes on the CPU.
  int gpu = -1;

  /// The row as this rank trains it.
  train::RowPlan own(train::RowPlan row) const;
};

/// A row that cannot be had here, and why.
struct RowLeftOut {
  train::RowPlan row;
  std::string reason;
};

/// Ranks that all do the same work: processes that this one starts, threads of it, or those that a launcher
/// has started, of which this process is one.
class RankJob {
 public:
  /// Looks at what started this process. Throws ConfigError for a combination of flags that cannot be.
  explicit RankJob(RankOptions options);

  /// `most_ranks`: that take part. Settles threads and pinning; throws ConfigError where the launcher started
  /// fewer, or a flag asks for more threads than there are.
  void plan(int most_ranks);
  /// Gives the rows that train all devices in one process the cores of their ranks. A row that cannot be had
  /// (these are not on one host, or not this process's to use; its strategy cannot work on a GPU) is a
  /// ConfigError if `strategies` (as the user gave them) names the strategy, and is taken out if it only came
  /// with `all`.
  std::vector<RowLeftOut> place_devices(std::vector<train::RowPlan>& rows,
                                        const std::vector<std::string>& strategies) const;
  /// Throws BackendMissing with what to install, ConfigError where each rank is to have a GPU of its own and
  /// this host has fewer. After plan().
  void check_backend() const;
  /// Throws ConfigError where the rows do not fit into the memory of this host, or of its GPUs.
  void check_memory(const std::vector<train::RowPlan>& rows) const;

  const RankOptions& options() const { return options_; }
  const std::optional<launch::RankEnvironment>& environment() const { return environment_; }
  /// Whether this process is a rank of a lockstep parent, which has checked everything.
  bool supervised() const { return environment_ && environment_->supervised; }
  /// Whether what this process prints is read: it starts the ranks, or is rank 0 of a launcher's.
  bool speaks() const { return !environment_ || environment_->rank == 0; }
  int ranks() const { return ranks_; }
  /// The most of them on this host.
  int local_ranks() const { return environment_ ? environment_->local_world : ranks_; }
  /// How many ranks there are to be where nobody says: as many as a launcher started, as this host has GPUs,
  /// or cores.
  int usual_ranks() const;
  bool on_gpus() const { return options_.on_gpus(); }
  /// Why LibTorch can use no GPU, where a job that could be on GPUs is not.
  const std::string& why_no_gpus() const { return gpus_.detail; }
  /// Of the ranks on this host.
  const launch::BindingPlan& binding() const { return binding_; }
  /// This host, as it was before ranks were bound to a part of it.
  const topology::Machine& machine() const { return machine_; }

  using Body = std::function<void(const JobRank&)>;
  /// When ranks were lost, the user ended the job, or a rank failed, in the process that is to tell it.
  using OnDeparture = std::function<void(const std::string& reason, const std::string& advice)>;

  /// Does the work on every rank, as the options say; returns the exit code. `variables`: set for processes
  /// that are started. May leave the process at once when a rank was lost.
  int run(const Body& body, const OnDeparture& on_departure,
          const std::vector<std::pair<std::string, std::string>>& variables = {}) const;

 private:
  /// Why a row cannot be had, or its ranks not be devices of one process; nothing where they can.
  std::optional<ConfigError> why_not(const train::RowPlan& row) const;
  std::optional<ConfigError> why_not_one_process(const train::RowPlan& row) const;
  int gpu_of(const launch::RankEnvironment& environment) const;
  /// The GPUs of this host's ranks, by local rank, as far as this process sees them.
  std::vector<train::GpuRoom> gpu_rooms() const;

  int run_process(const Body& body, const OnDeparture& on_departure) const;
  int run_threads(const Body& body, const OnDeparture& on_departure) const;
  int start_processes(const OnDeparture& on_departure,
                      const std::vector<std::pair<std::string, std::string>>& variables) const;
  launch::RankSession::Options session_options(const OnDeparture& on_departure) const;

  RankOptions options_;
  std::optional<launch::RankEnvironment> environment_;
  /// Only of a job on GPUs, or that could be.
  replica::AcceleratorStatus gpus_;
  std::vector<launch::Core> cores_;
  topology::Machine machine_;
  launch::BindingPlan binding_;
  int ranks_ = 1;
};

}  // namespace lockstep::cli
