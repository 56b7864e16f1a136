#include "lockstep/train/job/run_job.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/local_processes.h"
#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/rank_session.h"
#include "lockstep/launch/tcp_store.h"
#include "lockstep/launch/threads.h"
#include "lockstep/replica/torch_error.h"
#include "lockstep/topology/rank_gpus.h"

namespace lockstep::train {
namespace {

/// Longer than ranks that have met need to come here; the session notices one that is lost.
constexpr std::chrono::duration<double> kUntilAllTold{120};

struct ThreadsOfHosts {
  int least = 0;
  int most = 0;
};

/// The least and the most threads that a rank has on its host. Every rank calls it once per store.
ThreadsOfHosts compare_threads(int own, const launch::RankEnvironment& environment, comm::Store& store) {
  const auto key = [](int rank) { return fmt::format("threads/{}", rank); };
  store.set(key(environment.rank), std::to_string(own));
  ThreadsOfHosts all{own, own};
  if (environment.rank != 0) {
    all.least = std::stoi(store.get("threads", kUntilAllTold));
    return all;
  }
  for (int other = 1; other < environment.world; ++other) {
    const int theirs = std::stoi(store.get(key(other), kUntilAllTold));
    all = {std::min(all.least, theirs), std::max(all.most, theirs)};
  }
  store.set("threads", std::to_string(all.least));
  return all;
}

/// Starts the ranks of one job, or is one of them.
class JobRunner {
 public:
  JobRunner(const JobPlan& job, const RankWork& work, const JobCallbacks& callbacks)
      : job_(job),
        options_(job.site.options),
        work_(work),
        callbacks_(callbacks),
        timeout_(options_.timeout_s),
        join_timeout_(options_.join_timeout_s) {}

  int start_processes(const Variables& variables) const {
    launch::LocalOptions local;
    local.ranks = job_.ranks;
    local.through_mpirun = options_.backend == "mpi";
    local.environment = variables;
    local.on_stranger = [this](const std::string& text) { warn_of_stranger(text); };
    local.on_waiting = callbacks_.note;
    local.timeout = timeout_;
    local.join_timeout = join_timeout_;
    const launch::Supervision outcome = launch::run_local_ranks(local);
    if (!outcome.warning.empty()) callbacks_.warning(outcome.warning, "The results are complete.");
    if (outcome.exit_code != 0) callbacks_.departure(outcome);
    return outcome.exit_code;
  }

  int run_as_rank(const launch::RankEnvironment& environment) const {
    if (environment.on_one_host()) launch::keep_listeners_local();
    launch::RankSession session(environment, session_options());
    try {
      // Bound before the session starts threads of its own, which inherit the processors.
      bind(environment.local_rank, job_.binding);
      comm::Store& store = session.join();
      const launch::BindingPlan binding = agree_on_binding(environment, store);
      bind(environment.local_rank, binding);
      work_as(environment, store, session.progress(), binding);
      session.finish();
    } catch (const std::exception& error) {
      leave(session, session.fail(error));
    }
    return kExitDone;
  }

  int run_threads() const {
    launch::RankEnvironment process;
    launch::RankSession session(process, session_options());
    comm::HashStore store;
    std::vector<launch::Progress> progress(static_cast<size_t>(job_.ranks));
    launch::run_threads(
        job_.ranks,
        [&](int rank) {
          launch::RankEnvironment environment;
          environment.rank = environment.local_rank = rank;
          environment.world = environment.local_world = job_.ranks;
          bind(rank, job_.binding);
          work_as(environment, store, progress[static_cast<size_t>(rank)], job_.binding);
        },
        [&](int rank, const std::exception_ptr& error) {
          // The other threads may be blocked for good in a collective that this one has left.
          try {
            std::rethrow_exception(error);
          } catch (const std::exception& caught) {
            leave(session, session.fail(caught, rank, progress[static_cast<size_t>(rank)]));
          }
        });
    session.finish();
    return kExitDone;
  }

 private:
  static void bind(int local_rank, const launch::BindingPlan& binding) {
    const auto index = static_cast<size_t>(local_rank);
    if (index < binding.cpus.size()) launch::bind_this_thread(binding.cpus[index]);
  }

  /// The binding of this host's ranks with the threads that all hosts have for a rank: a rank is a device of
  /// one size everywhere.
  launch::BindingPlan agree_on_binding(const launch::RankEnvironment& environment, comm::Store& store) const {
    if (environment.supervised || environment.world == 1) return job_.binding;
    const ThreadsOfHosts threads = compare_threads(job_.binding.threads_per_rank, environment, store);
    if (threads.least < threads.most && environment.rank == 0 && callbacks_.note) {
      callbacks_.note(fmt::format("the hosts have {} to {} threads for a rank: every rank uses {}",
                                  threads.least, threads.most, threads.least));
    }
    if (threads.least == job_.binding.threads_per_rank) return job_.binding;
    return bind_ranks(job_.site, job_.ranks, threads.least);
  }

  void work_as(const launch::RankEnvironment& environment, comm::Store& store, launch::Progress& progress,
               const launch::BindingPlan& binding) const {
    at::set_num_threads(binding.threads_per_rank);
    const int gpus = job_.site.gpus.count;
    const bool has_gpu = job_.site.on_gpus() && gpus > 0;
    const int gpu = has_gpu ? topology::gpu_of_rank(environment.local_rank, gpus) : -1;
    replica::with_plain_errors([&] { work_({environment, store, progress, gpu, binding}); });
  }

  launch::RankSession::Options session_options() const {
    return {.timeout = timeout_,
            .join_timeout = join_timeout_,
            .on_waiting = callbacks_.note,
            .on_stranger = [this](const std::string& text) { warn_of_stranger(text); },
            .on_departure = [this](const launch::Departure& departure) { report(departure); },
            .open_agent_store = &launch::open_agent_store};
  }

  void warn_of_stranger(const std::string& text) const {
    callbacks_.warning(text, "The job goes on without it; docs/security.md says who can reach a job.");
  }

  void report(const launch::Departure& departure) const {
    if (callbacks_.leaving) callbacks_.leaving();
    if (departure.prints) callbacks_.departure(departure);
  }

  /// Leaves the process.
  void leave(launch::RankSession& session, const launch::Departure& departure) const {
    report(departure);
    session.leave(departure.exit_code);
  }

  const JobPlan& job_;
  const JobOptions& options_;
  const RankWork& work_;
  const JobCallbacks& callbacks_;
  std::chrono::duration<double> timeout_;
  std::chrono::duration<double> join_timeout_;
};

}  // namespace

int run_job(const JobPlan& job, const RankWork& work, const JobCallbacks& callbacks,
            const Variables& variables) {
  raise_open_files_limit();
  const JobRunner runner(job, work, callbacks);
  if (job.site.environment) return runner.run_as_rank(*job.site.environment);
  if (job.site.options.launch == "threads") return runner.run_threads();
  return runner.start_processes(variables);
}

bool reported_elsewhere(const launch::RankEnvironment& environment, const std::exception& error) noexcept {
  try {
    launch::RankSession session(environment, {.open_agent_store = &launch::open_agent_store});
    const launch::Departure departure = session.fail(error);
    if (environment.served_by_parent()) return !departure.prints;
    // Ranks that all have the same flags fail alike, and rank 0's word is enough.
    return environment.rank != 0 && departure.lost->rank == 0 && departure.lost->detail == error.what();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace lockstep::train
