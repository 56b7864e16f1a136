#include "lockstep/train/job/run_job.h"

#include <chrono>

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

constexpr std::chrono::duration<double> kUntilRanksMeet{60};

/// Starts the ranks of one job, or is one of them.
class JobRunner {
 public:
  JobRunner(const JobPlan& job, const RankWork& work, const OnDeparture& on_departure)
      : job_(job),
        options_(job.site.options),
        work_(work),
        on_departure_(on_departure),
        timeout_(options_.timeout_s) {}

  int start_processes(const Variables& variables) const {
    const std::unique_ptr<launch::TcpStore> store =
        launch::make_tcp_store("127.0.0.1", 0, true, kUntilRanksMeet);
    launch::LocalOptions local;
    local.ranks = job_.ranks;
    local.through_mpirun = options_.backend == "mpi";
    local.environment = variables;
    local.store_port = store->port();
    local.timeout = timeout_;
    const launch::Supervision outcome = launch::run_local_ranks(local);
    if (outcome.exit_code != 0) on_departure_(outcome.error, outcome.advice);
    return outcome.exit_code;
  }

  int run_as_rank(const launch::RankEnvironment& environment) const {
    launch::RankSession session(environment, session_options());
    try {
      // Bound before the watch and the store start threads of their own, which inherit the processors.
      bind(environment.local_rank);
      const std::unique_ptr<launch::TcpStore> store = launch::join_tcp_store(environment, kUntilRanksMeet);
      session.start_watch(store.get());
      work_as(environment, *store, session.progress());
      session.finish();
    } catch (const std::exception& error) {
      fail(session, error);
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
          bind(rank);
          work_as(environment, store, progress[static_cast<size_t>(rank)]);
        },
        [&](int /*rank*/, const std::exception_ptr& error) {
          // The other threads may be blocked for good in a collective that this one has left.
          try {
            std::rethrow_exception(error);
          } catch (const std::exception& caught) {
            fail(session, caught);
          }
        });
    session.finish();
    return kExitDone;
  }

 private:
  void bind(int local_rank) const {
    const auto index = static_cast<size_t>(local_rank);
    if (index < job_.binding.cpus.size()) launch::bind_this_thread(job_.binding.cpus[index]);
  }

  void work_as(const launch::RankEnvironment& environment, comm::Store& store,
               launch::Progress& progress) const {
    at::set_num_threads(job_.binding.threads_per_rank);
    const int gpus = job_.site.gpus.count;
    const bool has_gpu = job_.site.on_gpus() && gpus > 0;
    const int gpu = has_gpu ? topology::gpu_of_rank(environment.local_rank, gpus) : -1;
    replica::with_plain_errors([&] { work_({environment, store, progress, gpu}); });
  }

  launch::RankSession::Options session_options() const {
    return {.timeout = timeout_,
            .on_departure = [this](const launch::Departure& departure) { report(departure); }};
  }

  void report(const launch::Departure& departure) const {
    if (departure.prints) on_departure_(departure.reason, departure.advice);
  }

  /// Leaves the process.
  void fail(launch::RankSession& session, const std::exception& error) const {
    const launch::Departure departure = session.fail(error);
    report(departure);
    launch::RankSession::leave(departure.exit_code);
  }

  const JobPlan& job_;
  const JobOptions& options_;
  const RankWork& work_;
  const OnDeparture& on_departure_;
  std::chrono::duration<double> timeout_;
};

}  // namespace

int run_job(const JobPlan& job, const RankWork& work, const OnDeparture& on_departure,
            const Variables& variables) {
  const JobRunner runner(job, work, on_departure);
  if (job.site.environment) return runner.run_as_rank(*job.site.environment);
  if (job.site.options.launch == "threads") return runner.run_threads();
  return runner.start_processes(variables);
}

}  // namespace lockstep::train
