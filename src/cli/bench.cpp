#include "bench.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include <ATen/Parallel.h>

#include "lockstep/base/units.h"
#include "lockstep/limit/limit.h"
#include "lockstep/replica/accelerator.h"

#include "bench_rank.h"
#include "console.h"
#include "result_keeper.h"
#include "scribe.h"
#include "subgroups.h"

namespace lockstep::cli {
namespace {

/// Set by the parent, so that it finds what rank 0 kept should that die.
constexpr const char* kRecordPathVariable = "LOCKSTEP_RECORD_PATH";
/// Set by the parent: which of the launches of --repeat its ranks are.
constexpr const char* kLaunchVariable = "LOCKSTEP_LAUNCH_NUMBER";

/// "3+20": warm-up and measured; "?" for what the run itself finds.
std::string steps_text(const train::PacingOptions& pacing) {
  const auto text = [](const std::optional<int>& steps) { return steps ? std::to_string(*steps) : "?"; };
  return text(pacing.warmup_steps) + "+" + text(pacing.steps);
}

std::string describe_plan(const BenchPlan& plan, const RankJob& job) {
  const int ranks = job.ranks();
  std::string text =
      fmt::format("{} rows, up to {} {} with {} {}{} each, backend {}, launched as {}\n", plan.rows.size(),
                  ranks, ranks == 1 ? "rank" : "ranks", job.binding().threads_per_rank,
                  job.binding().threads_per_rank == 1 ? "thread" : "threads",
                  !job.on_gpus()               ? ""
                  : job.options().share_device ? " and a GPU that may be shared"
                                               : " and a GPU",
                  job.options().backend, job.options().launch);
  text +=
      fmt::format("  {:<44} {:>9} {:>7} {:>14} {:>10}\n", "row", "bucket", "steps", "memory/rank", "time");
  double total_s = 0;
  for (const train::RowPlan& row : plan.rows) {
    const train::RowEstimate estimate = train::estimate_row(row);
    if (estimate.duration_s) total_s += *estimate.duration_s;
    text += fmt::format("  {:<44} {:>9} {:>7} {:>14} {:>10}\n", row.label(),
                        row.tune_budget_s > 0 ? "tuned" : fmt::format("{:g} MiB", row.bucket_mb),
                        steps_text(row.pacing), format_bytes(estimate.memory.total_bytes()),
                        estimate.duration_s ? format_duration(*estimate.duration_s) : "-");
  }
  if (plan.options.limit)
    text += "  and the limit of each network, batch and precision: about a minute each\n";
  if (plan.options.layers) text += "  and the layers of each row: 13 steps more\n";
  if (plan.options.breakdown) text += "  and a breakdown of each row: 25 steps more\n";
  total_s *= plan.launches;
  if (plan.launches > 1) text += fmt::format("  all of it in {} launches\n", plan.launches);
  if (job.on_gpus()) return text + "how long it takes on GPUs is not estimated\n";
  return text + fmt::format("about {} in all, by the speed of one forward pass on this machine\n",
                            format_duration(total_s));
}

/// Tells why the job ended, and keeps what was measured.
void keep_and_tell(const BenchPlan& plan, const std::string& reason, const std::string& advice) {
  if (!reason.empty()) print_error(reason, advice);
  ResultFiles files = result_files(plan);
  files.last_launch = true;
  try {
    ResultKeeper(files).finish_incomplete(reason);
  } catch (const std::exception& error) {
    report(error);
  }
}

/// Whoever has a GPU and did not choose may wonder why it is idle.
void note_unused_gpus(const BenchOptions& options, const RankJob& job) {
  const std::vector<std::string>& gpus = job.machine().gpus;
  if (gpus.empty() || job.on_gpus() || options.ranks.device != "auto" || !job.speaks()) return;
  print_note(fmt::format("measuring processors, not {}: {}", gpus.front(), job.why_no_gpus()));
}

/// Every launch measures every row. A process that is a rank runs its own launch.
int run_launches(BenchPlan plan, const RankJob& job) {
  const auto body = [&](const JobRank& rank) { measure_rows(plan, job, rank); };
  const auto on_departure = [&](const std::string& reason, const std::string& advice) {
    keep_and_tell(plan, reason, advice);
  };
  if (job.environment()) return job.run(body, on_departure);
  for (plan.launch = 1; plan.launch <= plan.launches; ++plan.launch) {
    const int code =
        job.run(body, on_departure,
                {{kRecordPathVariable, plan.record_path}, {kLaunchVariable, std::to_string(plan.launch)}});
    if (code != kExitDone) return code;
  }
  return kExitDone;
}

/// Which launch of --repeat the ranks in this process belong to.
int own_launch(const RankJob& job) {
  const char* told = std::getenv(kLaunchVariable);
  if (!job.supervised() || told == nullptr) return 1;
  return std::max(1, std::atoi(told));
}

void check_repeat(const BenchOptions& options, const RankJob& job) {
  if (options.repeat == 1 || job.supervised()) return;
  if (job.environment()) {
    throw ConfigError(fmt::format("--repeat launches ranks anew, which those that {} started cannot be",
                                  to_string(job.environment()->launcher)),
                      "Run the whole command several times with --json FILE --append.");
  }
  if (job.options().launch == "threads") {
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

BenchPlan make_plan(BenchOptions options, RankJob& job, const std::vector<std::string>& command) {
  BenchPlan plan;
  plan.options = std::move(options);
  plan.command = command;
  check_repeat(plan.options, job);
  const bool breakdown_implied =
      !plan.options.trace_path.empty() || results::styles().get(plan.options.how.style).needs_breakdown;
  if (breakdown_implied) plan.options.breakdown = true;
  train::SweepOptions& sweep = plan.options.sweep;
  sweep.device = job.options().device;
  if (sweep.ranks.empty()) sweep.ranks = powers_of_two_up_to(job.usual_ranks());
  sweep.pacing.precision_target = parse_share(plan.options.precision_target, "--precision-target");
  sweep.input_flags.timeout_s = plan.options.ranks.timeout_s;
  plan.rows = train::plan_rows(sweep);
  plan.baseline = choose_baseline(plan.options, plan.rows);
  plan.launches = plan.options.repeat;
  plan.launch = own_launch(job);
  job.plan(train::most_ranks(plan.rows));
  for (const RowLeftOut& left_out : job.place_devices(plan.rows, sweep.strategies)) {
    if (job.speaks() && !job.supervised()) print_note("left out: " + left_out.reason);
  }
  plan.record_path = record_path(plan.options, job.environment());
  return plan;
}

}  // namespace

int run_bench(BenchOptions options, const std::vector<std::string>& command) {
  set_quiet(options.quiet);
  try {
    check_options(options);
    // Who asks for one wants a GPU, and is to hear what keeps it away.
    if (options.sweep.cuda_graph && options.ranks.device == "auto") options.ranks.device = "cuda";
    RankJob job(options.ranks);
    check_device_options(options, job.options().device);
    if (options.limit) limit::require_limit();
    if (!options.preset_note.empty() && job.speaks() && !job.supervised()) print_note(options.preset_note);
    const BenchPlan plan = make_plan(std::move(options), job, command);
    if (!job.supervised()) {
      // Estimating runs the network once, so with the threads that a rank will have.
      at::set_num_threads(job.binding().threads_per_rank);
      job.check_backend();
      if (plan.options.sweep.cuda_graph) replica::require_recording();
      job.check_memory(plan.rows);
      note_unused_gpus(plan.options, job);
    }
    if (plan.options.dry_run) {
      if (job.speaks()) print_result(describe_plan(plan, job));
      return kExitDone;
    }
    if (!job.environment()) check_files(plan.options);
    return run_launches(plan, job);
  } catch (const std::exception& error) {
    // The ranks of a job all refuse the same; one says so.
    if (const auto environment = launch::detect_environment(); environment && environment->rank != 0) {
      return exit_code_of(error);
    }
    throw;
  }
}

}  // namespace lockstep::cli
