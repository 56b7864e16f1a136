#include "bench_rank.h"

#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/hash_store.h"
#include "lockstep/launch/rank_session.h"
#include "lockstep/launch/tcp_store.h"
#include "lockstep/launch/threads.h"
#include "lockstep/results/json_writer.h"
#include "lockstep/train/row_runner.h"
#include "lockstep/train/torch_error.h"

#include "console.h"
#include "scribe.h"

namespace lockstep::cli {
namespace {

/// Long enough for any row; a rank that dies meanwhile is noticed by the watch.
constexpr std::chrono::duration<double> kUntilRowEnds{30.0 * 24 * 3600};

/// Every rank tells rank 0 its processors, and one rank per host its machine. Collective over the job.
void tell_machine(const BenchRank& rank) {
  const std::string number = std::to_string(rank.environment.rank);
  const auto local = static_cast<size_t>(rank.environment.local_rank);
  const std::vector<std::vector<int>>& cpus = rank.plan.binding.cpus;
  rank.store.set("cpus/" + number, local < cpus.size() ? launch::format_cpus(cpus[local]) : "");
  const bool tells = rank.environment.local_rank == 0;
  rank.store.set("machine/" + number, tells ? results::machine_to_json(rank.plan.machine) : "");
}

/// The subgroups of the sweep: the first N ranks for every N that a row needs. Made in one go, because every
/// rank of the job takes part in making each.
class Subgroups {
 public:
  Subgroups(comm::Communicator& world, const std::vector<train::RowPlan>& rows) {
    for (const train::RowPlan& row : rows) {
      if (groups_.contains(row.ranks)) continue;
      std::vector<int> ranks(static_cast<size_t>(row.ranks));
      for (int i = 0; i < row.ranks; ++i) ranks[static_cast<size_t>(i)] = i;
      groups_[row.ranks] = world.split(ranks);
    }
  }

  comm::Communicator* of(const train::RowPlan& row) const {
    const bool alone = row.ranks == 1 && !strategies::registry().get(row.strategy).traits.communicates;
    return alone ? nullptr : groups_.at(row.ranks).get();
  }

 private:
  std::map<int, std::unique_ptr<comm::Communicator>> groups_;
};

/// Collective over the job. Returns when every row is measured.
void measure_rows(const BenchRank& rank) {
  const BenchOptions& options = rank.plan.options;
  at::set_num_threads(rank.plan.binding.threads_per_rank);
  tell_machine(rank);
  std::optional<Scribe> scribe;
  if (rank.environment.rank == 0) scribe.emplace(rank);

  const std::unique_ptr<comm::Communicator> world = comm::connect(
      options.sweep.backend, {.rank = rank.environment.rank,
                              .size = rank.environment.world,
                              .store = &rank.store,
                              .timeout = comm::Duration(std::max(300.0, 10 * options.timeout_s)),
                              .interface = options.interface});
  const Subgroups subgroups(*world, rank.plan.rows);
  for (size_t i = 0; i < rank.plan.rows.size(); ++i) {
    const train::RowPlan& row = rank.plan.rows[i];
    const std::string done = fmt::format("row/{}/done", i);
    if (rank.environment.rank >= row.ranks) {
      rank.progress.begin("waiting for " + row.label());
      rank.store.get(done, kUntilRowEnds);
      continue;
    }
    rank.progress.begin(row.label());
    if (scribe) scribe->row_begins(i);
    std::optional<train::RowSamples> samples = train::run_row(row, subgroups.of(row), rank.progress);
    std::vector<measure::RankStamps> stamps;
    if (options.breakdown) {
      rank.progress.begin("breakdown of " + row.label());
      stamps = train::break_down_row(row, subgroups.of(row), rank.progress);
    }
    if (!scribe) continue;
    scribe->row_ends(i, *samples, std::move(stamps));
    rank.store.set(done, "1");
  }
  world->barrier()->wait();
  if (scribe) scribe->finish();
}

void keep_and_tell(const BenchPlan& plan, const launch::Departure& departure) {
  if (!departure.prints) return;
  ResultKeeper keeper(result_files(plan));
  print_error(departure.reason, departure.advice);
  try {
    keeper.finish_incomplete(departure.reason);
  } catch (const std::exception& error) {
    report(error);
  }
}

launch::RankSession::Options session_options(const BenchPlan& plan) {
  return {.timeout = std::chrono::duration<double>(plan.options.timeout_s),
          .on_departure = [&plan](const launch::Departure& departure) { keep_and_tell(plan, departure); }};
}

}  // namespace

int run_rank_process(const BenchPlan& plan, const launch::RankEnvironment& environment) {
  launch::RankSession session(environment, session_options(plan));
  try {
    const auto local = static_cast<size_t>(environment.local_rank);
    if (local < plan.binding.cpus.size()) launch::bind_this_thread(plan.binding.cpus[local]);
    const std::unique_ptr<launch::TcpStore> store =
        launch::join_tcp_store(environment, std::chrono::duration<double>(60));
    session.start_watch(store.get());
    train::with_plain_errors([&] { measure_rows({plan, environment, *store, session.progress()}); });
    session.finish();
  } catch (const std::exception& error) {
    const launch::Departure departure = session.fail(error);
    keep_and_tell(plan, departure);
    launch::RankSession::leave(departure.exit_code);
  }
  return kExitDone;
}

int run_rank_threads(const BenchPlan& plan, int ranks) {
  launch::RankEnvironment process;
  launch::RankSession session(process, session_options(plan));
  comm::HashStore store;
  std::vector<launch::Progress> progress(static_cast<size_t>(ranks));
  launch::run_threads(
      ranks,
      [&](int rank) {
        const auto index = static_cast<size_t>(rank);
        launch::RankEnvironment environment;
        environment.rank = environment.local_rank = rank;
        environment.world = environment.local_world = ranks;
        launch::bind_this_thread(plan.binding.cpus[index]);
        train::with_plain_errors([&] { measure_rows({plan, environment, store, progress[index]}); });
      },
      [&](int /*rank*/, const std::exception_ptr& error) {
        // The other threads may be blocked for good in a collective that this one has left.
        try {
          std::rethrow_exception(error);
        } catch (const std::exception& caught) {
          const launch::Departure departure = session.fail(caught);
          keep_and_tell(plan, departure);
          launch::RankSession::leave(departure.exit_code);
        }
      });
  session.finish();
  return kExitDone;
}

}  // namespace lockstep::cli
