#include "bench_rank.h"

#include <map>
#include <memory>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "lockstep/base/allocator.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/hash_store.h"
#include "lockstep/launch/rank_session.h"
#include "lockstep/launch/tcp_store.h"
#include "lockstep/launch/threads.h"
#include "lockstep/results/baseline.h"
#include "lockstep/results/json_reader.h"
#include "lockstep/results/json_writer.h"
#include "lockstep/results/machine_warnings.h"
#include "lockstep/results/summarize.h"
#include "lockstep/results/text.h"
#include "lockstep/train/row_runner.h"
#include "lockstep/train/torch_error.h"

#include "console.h"
#include "progress_line.h"
#include "result_keeper.h"
#include "version.h"

namespace lockstep::cli {
namespace {

/// Long enough for any row; a rank that dies meanwhile is noticed by the watch.
constexpr std::chrono::duration<double> kUntilRowEnds{30.0 * 24 * 3600};

/// What a rank is, for the functions below.
struct Rank {
  const BenchPlan& plan;
  launch::RankEnvironment environment;
  comm::Store& store;
  launch::Progress& progress;
};

results::RunRecord describe_job(const Rank& rank) {
  const BenchOptions& options = rank.plan.options;
  results::RunRecord record;
  record.lockstep_version = lockstep_version();
  record.torch_version = torch_version();
  record.backend_detail = comm::backend_status(options.sweep.backend).detail;
  record.started_at = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  record.command = rank.plan.command;
  record.launch = options.launch;
  record.binding = options.bind;
  record.allocator = keep_freed_pages();
  record.ranks = train::most_ranks(rank.plan.rows);
  record.threads_per_rank = rank.plan.binding.threads_per_rank;
  record.strategies = options.sweep.strategies;
  record.distributed_backend = options.sweep.backend;
  record.bucket_size_mb = options.sweep.bucket_mb.front();
  return record;
}

/// Every rank tells rank 0 its processors, and one rank per host its machine. Collective over the job.
void tell_machine(const Rank& rank) {
  const std::string number = std::to_string(rank.environment.rank);
  const auto local = static_cast<size_t>(rank.environment.local_rank);
  const std::vector<std::vector<int>>& cpus = rank.plan.binding.cpus;
  rank.store.set("cpus/" + number, local < cpus.size() ? launch::format_cpus(cpus[local]) : "");
  const bool tells = rank.environment.local_rank == 0;
  rank.store.set("machine/" + number, tells ? results::machine_to_json(rank.plan.machine) : "");
}

/// In rank 0: what the ranks told. hosts_before[n]: hosts among the first n ranks.
void collect_machines(const Rank& rank, results::RunRecord& record, std::vector<int>& hosts_before) {
  hosts_before.assign(1, 0);
  const std::chrono::duration<double> patience{60};
  for (int other = 0; other < rank.environment.world; ++other) {
    record.rank_cpus.push_back(rank.store.get(fmt::format("cpus/{}", other), patience));
    const std::string machine = rank.store.get(fmt::format("machine/{}", other), patience);
    if (!machine.empty()) record.machines.push_back(results::machine_from_json(machine));
    hosts_before.push_back(static_cast<int>(record.machines.size()));
  }
  const results::HostPlan host_plan{.ranks = rank.environment.local_world,
                                    .threads_per_rank = rank.plan.binding.threads_per_rank};
  for (const topology::Machine& machine : record.machines) {
    for (results::Warning& warning : results::machine_warnings(machine, host_plan)) {
      if (record.machines.size() > 1) warning.text = fmt::format("{}: {}", machine.host, warning.text);
      record.warnings.push_back(std::move(warning));
    }
  }
}

results::Run describe_run(const Rank& rank, const train::RowPlan& row) {
  results::Run run;
  run.model = row.model;
  run.batch_per_rank = row.batch_per_rank;
  run.ranks = row.ranks;
  run.strategy = row.strategy;
  run.backend = rank.plan.options.sweep.backend;
  run.precision = row.precision;
  run.memory_format = row.memory_format;
  run.input = row.input;
  run.image_size = row.image_size;
  run.bucket_mb = row.bucket_mb;
  run.threads_per_rank = rank.plan.binding.threads_per_rank;
  run.seed = static_cast<int64_t>(row.seed);
  const models::ModelInfo& model = models::registry().get(row.model);
  run.parameters = model.parameters;
  // At other image sizes it is not known without running the network.
  if (row.image_size == model.image_size) run.multiply_adds = model.multiply_adds;
  run.learning_rate = row.learning_rate;
  run.momentum = row.momentum;
  run.weight_decay = row.weight_decay;
  run.coupled = strategies::registry().get(row.strategy).traits.coupled;
  return run;
}

/// What rank 0 does beside training: the record, the progress line, the files.
class Scribe {
 public:
  explicit Scribe(const Rank& rank)
      : rank_(rank),
        keeper_(rank.plan.record_path, rank.plan.options.json_path, rank.plan.options.csv_path),
        record_(describe_job(rank)) {
    check_files(rank.plan.options);
    collect_machines(rank, record_, hosts_before_);
    print_result(results::header_text(record_));
    line_ = std::make_unique<ProgressLine>(rank.plan.rows, rank.progress);
  }

  void row_begins(size_t index) { line_->row_begins(index); }

  void row_ends(size_t index, train::RowSamples samples) {
    const train::RowPlan& row = rank_.plan.rows[index];
    results::Run run = describe_run(rank_, row);
    run.hosts = hosts_before_[static_cast<size_t>(row.ranks)];
    run.loss_first = samples.loss_first;
    run.loss_last = samples.loss_last;
    results::summarize(run, {.warmup_s = std::move(samples.warmup_s),
                             .step_s = std::move(samples.step_s),
                             .start_s = {},
                             .elapsed_s = std::nullopt});
    line_->row_ends(index, run.images_per_s);
    record_.runs.push_back(std::move(run));
    results::assign_baselines(record_);
    keeper_.row_finished(record_);
  }

  void finish() {
    line_.reset();
    keeper_.finish(record_);
  }

 private:
  const Rank& rank_;
  ResultKeeper keeper_;
  results::RunRecord record_;
  std::vector<int> hosts_before_;
  std::unique_ptr<ProgressLine> line_;
};

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
void measure_rows(const Rank& rank) {
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
    if (!scribe) continue;
    scribe->row_ends(i, std::move(*samples));
    rank.store.set(done, "1");
  }
  world->barrier()->wait();
  if (scribe) scribe->finish();
}

void keep_and_tell(const BenchPlan& plan, const launch::Departure& departure) {
  if (!departure.prints) return;
  ResultKeeper keeper(plan.record_path, plan.options.json_path, plan.options.csv_path);
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
