#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "bench_plan.h"
#include "bench_rank.h"
#include "bench_recorder.h"
#include "commands.h"
#include "console.h"
#include "plan_text.h"
#include "presets.h"
#include "result_keeper.h"

namespace lockstep::cli {
namespace {

/// Set by the parent, so that it finds the partial record if rank 0 dies.
constexpr const char* kRecordPathVariable = "LOCKSTEP_RECORD_PATH";
/// Set by the parent, which has looked at what was there before: where the record is meanwhile.
constexpr const char* kPlaceVariable = "LOCKSTEP_RECORD_PLACE";
/// Set by the parent: the number of the launch, counted from 1, that its ranks belong to.
constexpr const char* kLaunchVariable = "LOCKSTEP_LAUNCH_NUMBER";

/// Prints why the job ended, and keeps what was measured, which is in `place`.
void keep_what_was_measured(const BenchPlan& plan, const std::filesystem::path& place,
                            const Trouble& reason) {
  print_departure(reason);
  ResultFiles files = result_files(plan);
  files.place = place;
  // No launch comes after one that ended early.
  files.last_launch = true;
  try {
    ResultKeeper(files).finish_incomplete(reason.what);
  } catch (const std::exception& error) {
    report(error);
  }
}

/// Tells a user who has a GPU and did not choose a device why it is idle.
void note_unused_gpus(const BenchOptions& options, const train::JobSite& site) {
  const std::vector<std::string>& gpus = site.machine.gpus;
  if (gpus.empty() || site.on_gpus() || options.job.device != "auto" || !site.speaks()) return;
  print_note(fmt::format("measuring processors, not {}: {}", gpus.front(), site.gpus.detail));
}

/// Runs every launch, each with all rows; a process that is a rank runs its own launch.
int run_launches(BenchPlan plan) {
  const auto run = [&](const train::Variables& variables) {
    LiveRecord live;
    // Known to every process but a launcher's ranks other than 0, which learn it from rank 0.
    live.set_place(plan.place);
    return train::run_job(
        plan.job, [&](const train::JobRank& rank) { measure_rows(plan, rank, live); },
        {.departure = [&](const Trouble& reason) { keep_what_was_measured(plan, live.place(), reason); },
         .note = print_note,
         .stranger = print_stranger,
         .leaving = [&] { live.write_now(); }},
        variables);
  };
  // A parent's environment tells its ranks the record's path and the launch.
  if (plan.job.site.environment) return run({});
  for (plan.launch = 1; plan.launch <= plan.launches; ++plan.launch) {
    const int code = run({{kRecordPathVariable, plan.record_path},
                          {kPlaceVariable, plan.place},
                          {kLaunchVariable, std::to_string(plan.launch)}});
    if (code != kExitDone) return code;
  }
  return kExitDone;
}

/// The launch of --repeat that this process's ranks belong to.
int own_launch(const train::JobSite& site) {
  const char* number = std::getenv(kLaunchVariable);
  if (!site.supervised() || number == nullptr) return 1;
  return std::max(1, std::atoi(number));
}

/// The file in which rank 0 keeps the record while rows are measured.
std::string record_path(const BenchOptions& options,
                        const std::optional<launch::RankEnvironment>& environment) {
  // Without --json the parent and its ranks must find the same file: the parent passes its path on, and a
  // launcher's ranks share the job's number. A rank alone shares with nobody, and its job may have no number.
  if (!options.json_path.empty()) return options.json_path;
  if (const char* path = std::getenv(kRecordPathVariable); environment && path != nullptr) return path;
  const bool shared = environment && environment->world > 1;
  return temporary_record_path(shared ? environment->job_id : std::to_string(::getpid())).string();
}

BenchPlan make_plan(BenchOptions options, train::JobSite site, const Arguments& command) {
  BenchPlan plan;
  plan.options = std::move(options);
  plan.command = command;
  if (!plan.options.trace_path.empty() || results::styles().get(plan.options.how.style).needs_breakdown) {
    plan.options.breakdown = true;
  }
  train::SweepOptions& sweep = plan.options.sweep;
  sweep.common.device = site.options.device;
  if (sweep.ranks.empty()) sweep.ranks = site.usual_ranks();
  sweep.input_flags.timeout_s = plan.options.job.timeout_s;
  std::vector<train::RowPlan> rows = train::plan_rows(sweep);
  plan.baseline = choose_baseline(plan.options, rows);
  plan.launches = plan.options.repeat;
  plan.launch = own_launch(site);
  plan.record_path = record_path(plan.options, site.environment);
  if (const char* place = std::getenv(kPlaceVariable); site.supervised() && place != nullptr)
    plan.place = place;
  plan.job = train::plan_job(std::move(site), std::move(rows), sweep.strategies);
  return plan;
}

/// Mistakes in flags are reported before anything slow happens: looking for GPUs takes seconds, and
/// estimating the memory runs each network once.
BenchPlan check_and_plan(BenchOptions options, const std::string& preset_note, const Arguments& command) {
  check_flags(options);
  // --cuda-graph asks for a GPU: its user wants to hear what keeps GPUs from being used.
  if (options.sweep.common.cuda_graph && options.job.device == "auto") options.job.device = "cuda";
  train::JobSite site = train::inspect_site(options.job);
  check_on_site(options, site);
  if (!preset_note.empty() && site.speaks() && !site.supervised()) print_note(preset_note);
  return make_plan(std::move(options), std::move(site), command);
}

/// Checks everything that can be checked, then starts the ranks and supervises them, or, in a process that a
/// launcher or a lockstep parent started, is one of the ranks.
int run_bench(BenchPlan plan) {
  const train::JobSite& here = plan.job.site;
  if (!here.supervised()) {
    check_start(plan);
    note_unused_gpus(plan.options, here);
  }
  if (plan.options.dry_run) {
    if (here.speaks()) print_result(plan_text(plan));
    return kExitDone;
  }
  // A launcher's ranks may be on hosts that do not see the files; its rank 0 checks them before it measures.
  if (!here.environment) check_files(plan.options);
  if (!here.supervised() && here.speaks()) plan.place = ResultKeeper(result_files(plan)).prepare().string();
  return run_launches(std::move(plan));
}

/// Adds the flags of a bench; `run` gets its plan.
RunCommand add_planned_bench(Flags& flags, const std::function<int(BenchPlan)>& run) {
  const auto options = std::make_shared<BenchOptions>();
  add_bench_flags(flags, *options);
  return [options, &flags, run](const Arguments& arguments) {
    if (options->quiet) set_quiet(true);
    std::string note;
    if (!options->preset.empty()) note = apply_preset(options->preset, flags, options->sweep);
    return run(check_and_plan(*options, note, arguments));
  };
}

}  // namespace

std::optional<BenchPlan> plan_bench(const Arguments& arguments) {
  std::optional<BenchPlan> found;
  CommandLine line("", "", "");
  line.add("bench", "train on 1, 2 and more ranks and print how it scales", [&](Flags& flags) {
    return add_planned_bench(flags, [&](BenchPlan plan) {
      found = std::move(plan);
      return kExitDone;
    });
  });
  if (const RunCommand run = line.parse(arguments)) run(arguments);
  return found;
}

void check_start(const BenchPlan& plan) {
  const bool speaks = plan.job.site.speaks();
  for (const train::RowLeftOut& left_out : plan.job.left_out) {
    if (speaks) print_note("left out: " + left_out.reason);
  }
  train::check_backend(plan.job);
  const std::vector<std::string> shortages = train::check_memory(plan.job);
  if (speaks) print_warnings(shortages, train::kShortOfMemoryAdvice);
}

RunCommand add_bench(Flags& flags) {
  const RunCommand command =
      add_planned_bench(flags, [](BenchPlan plan) { return run_bench(std::move(plan)); });
  return [command](const Arguments& arguments) { return report_once([&] { return command(arguments); }); };
}

}  // namespace lockstep::cli
