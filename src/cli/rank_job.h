#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/binding.h"
#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/progress.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/launch/rank_session.h"
#include "lockstep/topology/machine.h"
#include "lockstep/train/facts.h"
#include "lockstep/train/sweep.h"

namespace lockstep::cli {

/// How ranks come to be and talk to each other: what every command that has ranks is told.
struct RankOptions {
  std::string backend = "gloo";
  std::string launch = "auto";
  std::string bind = "core";
  std::string interface;
  int threads = 0;
  double timeout_s = 30;
};

void add_rank_flags(CLI::App& command, RankOptions& options);

/// One rank of a job, in the thread that is to do its work.
struct JobRank {
  launch::RankEnvironment environment;
  comm::Store& store;
  launch::Progress& progress;
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
  /// Gives the rows that train all devices in one process the cores of their ranks. Where these are not on
  /// one host, or not this process's to use, it throws ConfigError if `strategies` (as the user gave them)
  /// names the strategy, and takes the row out if it only came with `all`.
  std::vector<RowLeftOut> place_devices(std::vector<train::RowPlan>& rows,
                                        const std::vector<std::string>& strategies) const;
  /// Throws BackendMissing with what to install.
  void check_backend() const;

  const RankOptions& options() const { return options_; }
  const std::optional<launch::RankEnvironment>& environment() const { return environment_; }
  /// Whether this process is a rank of a lockstep parent, which has checked everything.
  bool supervised() const { return environment_ && environment_->supervised; }
  /// Whether what this process prints is read: it starts the ranks, or is rank 0 of a launcher's.
  bool speaks() const { return !environment_ || environment_->rank == 0; }
  int ranks() const { return ranks_; }
  /// The most of them on this host.
  int local_ranks() const { return environment_ ? environment_->local_world : ranks_; }
  int usable_cores() const { return static_cast<int>(cores_.size()); }
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
  /// Why the ranks of a row cannot be devices of one process; nothing where they can.
  std::optional<ConfigError> why_not_one_process(const train::RowPlan& row) const;

  int run_process(const Body& body, const OnDeparture& on_departure) const;
  int run_threads(const Body& body, const OnDeparture& on_departure) const;
  int start_processes(const OnDeparture& on_departure,
                      const std::vector<std::pair<std::string, std::string>>& variables) const;
  launch::RankSession::Options session_options(const OnDeparture& on_departure) const;

  RankOptions options_;
  std::optional<launch::RankEnvironment> environment_;
  std::vector<launch::Core> cores_;
  topology::Machine machine_;
  launch::BindingPlan binding_;
  int ranks_ = 1;
};

/// That every rank is about to do the same: the command, its plan, and with what. Throws ConfigError on all
/// of them, naming the ranks and what differs. Collective over the job, before anything else that is.
void agree_on(const char* command, const train::Facts& plan, const RankOptions& options, const JobRank& rank);

/// All ranks of the job as one communicator. Collective.
std::unique_ptr<comm::Communicator> connect_all(const RankOptions& options, const JobRank& rank);

}  // namespace lockstep::cli
