#pragma once

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/progress.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/train/job/job_plan.h"

namespace lockstep::train {

/// One rank of a job, in the thread that does its work.
struct JobRank {
  launch::RankEnvironment environment;
  comm::Store& store;
  launch::Progress& progress;
  /// The rank's GPU, as its process numbers them; -1 on a CPU.
  int gpu = -1;
  /// Threads per rank, the same on all hosts, and the processors of this host's ranks.
  launch::BindingPlan binding = {};
};

/// The work of one rank; the same on all ranks.
using RankWork = std::function<void(const JobRank&)>;
/// Calls by which a job reports to its user, in the process that does so for all.
struct JobCallbacks {
  /// Called when ranks were lost, the user ended the job or a rank failed.
  std::function<void(const Trouble& reason)> departure;
  /// Called with a line on the state of the job: missing ranks, the threads that the ranks agreed on. From
  /// any thread.
  std::function<void(const std::string& line)> note;
  /// Called with a sentence about something that does not end the job, such as a stranger that connected to
  /// it, and advice; from any thread.
  std::function<void(const std::string& text, const std::string& advice)> warning;
  /// Called in a rank's process that is about to end early, before `departure` and also where another process
  /// reports, to save results. From any thread, while others may be blocked for good; within half a second.
  /// Empty: there is nothing to save.
  std::function<void()> leaving = {};
};
/// Environment variables and their values.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// Runs `work` on every rank: processes that this one starts, its threads, or, where a launcher started this
/// process, this one rank. `variables` are set for processes that are started. Returns the exit code. Leaves
/// the process at once when a rank fails or is lost: the others may be blocked in a collective for good, and
/// a communicator that lost a rank cannot be taken down.
int run_job(const JobPlan& job, const RankWork& work, const JobCallbacks& callbacks,
            const Variables& variables = {});

/// For a rank that fails before run_job() has brought it to the others: reports the error to the process that
/// speaks for the job, the lockstep parent or rank 0, which then ends the job at once; otherwise all would
/// wait for this rank. Returns whether that process gives the user this very error; if not, the caller does.
/// Takes some seconds at most. Never throws.
bool reported_elsewhere(const launch::RankEnvironment& environment, const std::exception& error) noexcept;

}  // namespace lockstep::train
