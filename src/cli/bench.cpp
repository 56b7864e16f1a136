#include "bench.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include <ATen/Parallel.h>

#include "lockstep/base/units.h"
#include "lockstep/comm/backend.h"
#include "lockstep/launch/local_processes.h"
#include "lockstep/launch/tcp_store.h"
#include "lockstep/topology/inspect.h"

#include "bench_rank.h"
#include "console.h"
#include "result_keeper.h"
#include "scribe.h"

namespace lockstep::cli {
namespace {

/// Set by the parent, so that it finds what rank 0 kept should that die.
constexpr const char* kRecordPathVariable = "LOCKSTEP_RECORD_PATH";
/// Set by the parent: which of the launches of --repeat its ranks are.
constexpr const char* kLaunchVariable = "LOCKSTEP_LAUNCH_NUMBER";

std::vector<int> powers_of_two_up_to(int most) {
  std::vector<int> powers;
  for (int ranks = 1; ranks <= most; ranks *= 2) powers.push_back(ranks);
  return powers;
}

/// The way of launching that --launch, --backend and what started this process leave; throws ConfigError for
/// a combination that cannot be.
void settle_launch(BenchOptions& options, const std::optional<launch::RankEnvironment>& environment) {
  const bool threads_backend = options.sweep.backend == "thread";
  if (environment) {
    if (threads_backend || options.launch == "threads") {
      throw ConfigError(
          fmt::format("ranks as threads cannot be started by {}", to_string(environment->launcher)),
          "Run lockstep without a launcher, or choose --backend gloo or mpi.");
    }
    options.launch = to_string(environment->launcher);
    return;
  }
  if (threads_backend && options.launch == "processes") {
    throw ConfigError("--backend thread connects the threads of one process, not processes",
                      "Use --launch threads, or --backend gloo or mpi.");
  }
  if (options.launch == "threads" && options.sweep.backend == "mpi") {
    throw ConfigError("--backend mpi has one rank per process",
                      "Use --launch processes, or --backend thread.");
  }
  if (options.launch == "auto") options.launch = threads_backend ? "threads" : "processes";
}

void check_backend(const std::string& name) {
  // Throws for an unknown name, with the nearest.
  const comm::BackendStatus status = comm::backend_status(name);
  if (!status.usable) {
    throw BackendMissing(fmt::format("backend {} cannot be used: {}", name, status.detail), status.advice);
  }
}

void check_world(const BenchPlan& plan, const launch::RankEnvironment& environment) {
  const int most = train::most_ranks(plan.rows);
  if (most <= environment.world) return;
  throw ConfigError(fmt::format("--ranks {} needs {} ranks, but {} started {}", most, most,
                                to_string(environment.launcher), environment.world),
                    "Start more ranks, or give smaller --ranks.");
}

/// "3+20": warm-up and measured; "?" for what the run itself finds.
std::string steps_text(const train::PacingOptions& pacing) {
  const auto text = [](const std::optional<int>& steps) { return steps ? std::to_string(*steps) : "?"; };
  return text(pacing.warmup_steps) + "+" + text(pacing.steps);
}

std::string describe_plan(const BenchPlan& plan, int ranks) {
  std::string text =
      fmt::format("{} rows, up to {} {} with {} {} each, backend {}, launched as {}\n", plan.rows.size(),
                  ranks, ranks == 1 ? "rank" : "ranks", plan.binding.threads_per_rank,
                  plan.binding.threads_per_rank == 1 ? "thread" : "threads", plan.options.sweep.backend,
                  plan.options.launch);
  text +=
      fmt::format("  {:<44} {:>9} {:>7} {:>14} {:>10}\n", "row", "bucket", "steps", "memory/rank", "time");
  double total_s = 0;
  for (const train::RowPlan& row : plan.rows) {
    const train::RowEstimate estimate = train::estimate_row(row);
    total_s += estimate.duration_s;
    text += fmt::format("  {:<44} {:>9} {:>7} {:>14} {:>10}\n", row.label(),
                        fmt::format("{:g} MiB", row.bucket_mb), steps_text(row.pacing),
                        format_bytes(estimate.memory.total_bytes()), format_duration(estimate.duration_s));
  }
  if (plan.options.breakdown) text += "  and a breakdown of each row: 25 steps more\n";
  total_s *= plan.launches;
  if (plan.launches > 1) text += fmt::format("  all of it in {} launches\n", plan.launches);
  return text + fmt::format("about {} in all, by the speed of one forward pass on this machine\n",
                            format_duration(total_s));
}

/// One launch of all ranks, which measures every row.
int launch_processes(const BenchPlan& plan, int ranks) {
  const std::unique_ptr<launch::TcpStore> store =
      launch::make_tcp_store("127.0.0.1", 0, true, std::chrono::duration<double>(60));
  launch::LocalOptions local;
  local.ranks = ranks;
  local.through_mpirun = plan.options.sweep.backend == "mpi";
  local.environment = {{kRecordPathVariable, plan.record_path},
                       {kLaunchVariable, std::to_string(plan.launch)}};
  local.store_port = store->port();
  local.timeout = std::chrono::duration<double>(plan.options.timeout_s);
  const launch::Supervision outcome = launch::run_local_ranks(local);
  if (outcome.exit_code == 0) return kExitDone;
  if (!outcome.error.empty()) print_error(outcome.error, outcome.advice);
  ResultFiles files = result_files(plan);
  files.last_launch = true;
  ResultKeeper(files).finish_incomplete(outcome.error);
  return outcome.exit_code;
}

int start_processes(BenchPlan plan, int ranks) {
  for (plan.launch = 1; plan.launch <= plan.launches; ++plan.launch) {
    const int code = launch_processes(plan, ranks);
    if (code != kExitDone) return code;
  }
  return kExitDone;
}

/// Which launch of --repeat the ranks in this process belong to.
int own_launch(const std::optional<launch::RankEnvironment>& environment) {
  const char* told = std::getenv(kLaunchVariable);
  if (!environment || !environment->supervised || told == nullptr) return 1;
  return std::max(1, std::atoi(told));
}

void check_repeat(const BenchOptions& options, const std::optional<launch::RankEnvironment>& environment) {
  if (options.repeat == 1 || (environment && environment->supervised)) return;
  if (environment) {
    throw ConfigError(fmt::format("--repeat launches ranks anew, which those that {} started cannot be",
                                  to_string(environment->launcher)),
                      "Run the whole command several times with --json FILE --append.");
  }
  if (options.launch == "threads") {
    throw ConfigError("--repeat launches ranks anew, and threads of one process are not new",
                      "Use --launch processes, or run the command several times with --json FILE --append.");
  }
}

/// Where rank 0 keeps the record while it is being measured.
std::string record_path(const BenchOptions& options,
                        const std::optional<launch::RankEnvironment>& environment) {
  if (!options.json_path.empty()) return options.json_path;
  if (const char* told = std::getenv(kRecordPathVariable); environment && told != nullptr) return told;
  return temporary_record_path(environment ? environment->job_id : std::to_string(::getpid())).string();
}

BenchPlan make_plan(BenchOptions options, const std::optional<launch::RankEnvironment>& environment,
                    const std::vector<std::string>& command) {
  BenchPlan plan;
  plan.options = std::move(options);
  plan.command = command;
  plan.machine = topology::inspect_host();
  settle_launch(plan.options, environment);
  check_repeat(plan.options, environment);
  if (!plan.options.trace_path.empty()) plan.options.breakdown = true;
  const std::vector<launch::Core> cores = launch::usable_cores();
  train::SweepOptions& sweep = plan.options.sweep;
  if (sweep.ranks.empty()) {
    sweep.ranks = powers_of_two_up_to(environment ? environment->world : static_cast<int>(cores.size()));
  }
  sweep.pacing.precision_target = parse_share(plan.options.precision_target, "--precision-target");
  plan.rows = train::plan_rows(sweep);
  plan.baseline = choose_baseline(plan.options, plan.rows);
  plan.launches = plan.options.repeat;
  plan.launch = own_launch(environment);
  const int most = train::most_ranks(plan.rows);
  // A launcher that binds gives every rank cores of its own; otherwise the ranks of this host share them.
  const bool bound = environment && environment->bound_by_launcher;
  const int sharing = bound ? 1 : environment ? std::min(most, environment->local_world) : most;
  plan.binding =
      launch::plan_binding(cores, sharing, plan.options.threads,
                           bound ? launch::Binding::kNone : launch::parse_binding(plan.options.bind));
  if (bound) plan.options.bind = "launcher";
  plan.record_path = record_path(plan.options, environment);
  return plan;
}

}  // namespace

int run_bench(BenchOptions options, const std::vector<std::string>& command) {
  set_quiet(options.quiet);
  const std::optional<launch::RankEnvironment> environment = launch::detect_environment();
  try {
    check_options(options);
    const BenchPlan plan = make_plan(std::move(options), environment, command);
    const int most = train::most_ranks(plan.rows);
    const bool supervised = environment && environment->supervised;
    if (!supervised) {
      // Estimating runs the network once, so with the threads that a rank will have.
      at::set_num_threads(plan.binding.threads_per_rank);
      check_backend(plan.options.sweep.backend);
      const int local_ranks = environment ? environment->local_world : most;
      train::check_memory(plan.rows, local_ranks, plan.machine.available_memory_bytes);
    }
    if (plan.options.dry_run) {
      if (!environment || environment->rank == 0) print_result(describe_plan(plan, most));
      return kExitDone;
    }
    if (environment) {
      check_world(plan, *environment);
      return run_rank_process(plan, *environment);
    }
    check_files(plan.options);
    return plan.options.launch == "threads" ? run_rank_threads(plan, most) : start_processes(plan, most);
  } catch (const std::exception& error) {
    // The ranks of a job all refuse the same; one says so.
    if (environment && environment->rank != 0) return exit_code_of(error);
    throw;
  }
}

}  // namespace lockstep::cli
