#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/units.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/results/tables/tables.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/train/job/kernel_trials.h"
#include "lockstep/train/rows/row_estimate.h"
#include "lockstep/train/rows/row_runner.h"

#include "bench_options.h"
#include "bench_recorder.h"
#include "commands.h"
#include "console.h"
#include "output_files.h"
#include "result_keeper.h"

namespace lockstep::cli {
namespace {

/// Set by the parent, which reads the record if rank 0 dies: its address.
constexpr const char* kRecordVariable = "LOCKSTEP_RECORD";
/// Set by the parent: the number of the launch, counted from 1, that its ranks belong to.
constexpr const char* kLaunchVariable = "LOCKSTEP_LAUNCH_NUMBER";

/// Prints why the job ended, and keeps the measurements.
void keep_what_was_measured(const BenchPlan& plan, const std::optional<KeptRecord>& kept,
                            const Trouble& reason) {
  // All was measured, and a rank has told why it exits otherwise.
  if (!reason) return;
  print_departure(reason);
  // The ranks have not met: there is no record yet.
  if (!kept) return print_note("nothing was measured yet");
  try {
    finish_incomplete(plan, *kept, reason.what);
  } catch (const std::exception& error) {
    report(error);
  }
}

/// Prints why the GPU of a user who did not choose a device is idle.
void note_unused_gpus(const BenchOptions& options, const train::JobSite& site) {
  const std::vector<std::string>& gpus = site.machine.gpus;
  if (gpus.empty() || site.on_gpus() || options.job.device != "auto" || !site.speaks()) return;
  print_note(fmt::format("measuring processors, not {}: {}", gpus.front(), site.gpus.detail));
}

/// Prints why there are no kernels to choose from, for a user who did not choose.
void note_missing_kernels(const BenchOptions& options, const train::JobSite& site) {
  const std::string why = kernels::why_no_fused_kernels();
  if (why.empty() || site.on_gpus() || !options.sweep.kernels.empty() || !site.speaks()) return;
  print_note(fmt::format(
      "computing with LibTorch's operations alone: {}; 'make setup' and a new build may help", why));
}

/// Runs every launch, each with all rows; a process that is a rank runs its own launch.
int run_launches(BenchPlan plan) {
  const auto run = [&](const train::Variables& variables) {
    LiveRecord live;
    if (plan.kept) live.set_kept(*plan.kept);
    int finished = kExitDone;
    const int ended = train::run_job(
        plan.job,
        [&](const train::JobRank& rank) {
          const int code = measure_rows(plan, rank, live);
          if (rank.environment.rank == 0) finished = code;
        },
        {.departure = [&](const Trouble& reason) { keep_what_was_measured(plan, live.kept(), reason); },
         .note = print_note,
         .warning = print_warning,
         .leaving = [&] { live.write_now(); }},
        variables);
    return std::max(ended, finished);
  };
  // The ranks of a parent have the record and the launch in their environment.
  if (plan.job.site.environment) return run({});
  for (plan.launch = 1; plan.launch <= plan.launches; ++plan.launch) {
    const int code =
        run({{kRecordVariable, plan.kept->address()}, {kLaunchVariable, std::to_string(plan.launch)}});
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
  if (plan.options.memory_limit_mb) {
    const auto limit = static_cast<int64_t>(*plan.options.memory_limit_mb * static_cast<double>(kMiB));
    train::WithinLimit within = train::rows_within(std::move(rows), limit);
    rows = std::move(within.rows);
    plan.over_memory_limit = std::move(within.left_out);
    if (rows.empty()) {
      throw ConfigError(fmt::format("no row fits: {}", fmt::join(plan.over_memory_limit, "; ")),
                        "Use a larger --memory-limit, --strategy fsdp, more ranks, or a smaller --batch.");
    }
  }
  plan.baseline = choose_baseline(plan.options, rows);
  plan.launches = plan.options.repeat;
  plan.launch = own_launch(site);
  if (const char* address = std::getenv(kRecordVariable); site.supervised())
    plan.kept = KeptRecord::open(address == nullptr ? "" : address);
  plan.job = train::plan_job(std::move(site), std::move(rows), sweep.strategies);
  return plan;
}

/// Mistakes in flags are reported before anything slow happens: looking for GPUs takes seconds, and
/// estimating the memory runs each network once.
BenchPlan check_and_plan(BenchOptions options, const std::string& preset_note, const Arguments& command) {
  check_flags(options);
  // --cuda-graph asks for a GPU, so its user needs the reason why none can be used.
  if (options.sweep.common.cuda_graph && options.job.device == "auto") options.job.device = "cuda";
  train::JobSite site = train::inspect_site(options.job);
  check_on_site(options, site);
  if (!preset_note.empty() && site.speaks() && !site.supervised()) print_note(preset_note);
  return make_plan(std::move(options), std::move(site), command);
}

/// Start of the ranks until the first row: loading LibTorch, meeting, describing the machine.
constexpr double kStart_s = 1.5;

/// "3 + 20": warm-up and measured steps; "auto" for a number that the run itself finds.
std::string steps_text(const train::PacingOptions& pacing) {
  const auto text = [](const std::optional<int>& steps) { return steps ? std::to_string(*steps) : "auto"; };
  return text(pacing.warmup_steps) + " + " + text(pacing.steps);
}

std::string heading(const train::JobPlan& job) {
  const train::JobOptions& how = job.site.options;
  const char* gpu = !how.on_gpus() ? "" : how.share_device ? " and a GPU that may be shared" : " and a GPU";
  return fmt::format("{}, up to {} with {}{} each, backend {}, launched as {}\n",
                     counted(static_cast<int>(job.rows.size()), "row"), counted(job.ranks, "rank"),
                     counted(job.binding.threads_per_rank, "thread"), gpu, how.backend, how.launch);
}

/// "12 s", or "2.5 s to 1 min 00 s".
std::string duration_text(const train::Duration& duration) {
  const std::string least = format_duration(duration.least_s);
  const std::string most = format_duration(duration.most_s);
  return least == most ? least : least + " to " + most;
}

/// Durations of rows on processors, each network tried once.
class RowDurations {
 public:
  explicit RowDurations(const BenchPlan& plan) : plan_(plan) {}

  train::Duration of(const train::RowPlan& row) {
    const std::string key = fmt::format("{} {} {} {} {} {}", row.model, row.image_size, row.batch_per_rank,
                                        row.precision, row.kernels, row.memory_format);
    if (!costs_.contains(key)) costs_[key] = train::try_steps(row);
    train::StepCost cost = costs_[key];
    // Ranks that share cores take turns.
    const train::JobPlan& job = plan_.job;
    const int ranks = std::min(row.ranks, job.local_ranks()), cores = std::max(1, job.site.machine.cores);
    const int threads = ranks * job.binding.threads_per_rank;
    const double crowd = std::max(1.0, 1.0 * threads / cores);
    cost.step_s =
        crowd * (cost.step_s + train::exchange_s(row, cost.step_s, ranks, cores - threads) / row.accumulate);
    return train::duration_of(row, cost, plan_.options.breakdown);
  }

 private:
  const BenchPlan& plan_;
  std::map<std::string, train::StepCost> costs_;
};

/// The sum of all launches, and the basis of the estimate.
std::string closing(const BenchPlan& plan, train::Duration launch, double took_s) {
  launch.least_s *= plan.launches;
  launch.most_s *= plan.launches;
  std::string text = fmt::format("about {} in all", duration_text(launch));
  if (plan.launches > 1) text += fmt::format(", in {} launches", plan.launches);
  text +=
      fmt::format(", judging by some steps of each network and by this machine's sockets, which took {}\n",
                  format_duration(took_s));
  const train::PacingOptions& pacing = plan.options.sweep.pacing;
  if (!pacing.steps) {
    text += fmt::format("steps end when the median is known well enough, or after {} per row (--max-time)\n",
                        format_duration(pacing.time_limit_s()));
  }
  return text;
}

/// The rows of a plan with the memory and the time that each is expected to take, for --dry-run. Trains every
/// network of the plan for a few steps.
std::string plan_text(BenchPlan plan) {
  const double begin_s = now_s();
  const auto trials = train::choose_kernels(plan.job, nullptr);
  const train::JobPlan& job = plan.job;
  RowDurations durations(plan);
  const double start_s = kStart_s + now_s() - begin_s;
  train::Duration launch{start_s, start_s};
  size_t width = 44;
  for (const train::RowPlan& row : job.rows) width = std::max(width, row.label().size());
  constexpr const char* kColumns = "  {:<{}} {:>9} {:>13} {:>14} {:>20}\n";
  std::string text = heading(job);
  if (!trials.empty()) text += "kernels of " + results::trials_text(trials) + "\n";
  text += fmt::format(kColumns, "row", width, "bucket", "warm-up+steps", "memory/rank", "time");
  for (size_t i = 0; i < job.rows.size(); ++i) {
    const train::RowPlan& row = job.rows[i];
    std::string time = "-";
    if (!job.site.on_gpus()) {
      const auto add = [&](const train::Duration& duration) {
        launch.least_s += duration.least_s;
        launch.most_s += duration.most_s;
        return duration_text(duration);
      };
      time = add(durations.of(row));
      if (const std::optional<size_t> baseline = train::baseline_after(job.rows, i)) {
        train::RowPlan again = job.rows[*baseline];
        again.pacing = train::again_pacing(again);
        add(durations.of(again));
      }
    }
    text +=
        fmt::format(kColumns, row.label(), width,
                    row.tune_budget_s > 0 ? "tuned" : results::mebibytes_text(row.bucket_mb),
                    steps_text(row.pacing), format_bytes(train::estimate_memory(row).total_bytes()), time);
  }
  if (job.site.on_gpus()) return text + "the time on GPUs is not estimated\n";
  return text + closing(plan, launch, now_s() - begin_s);
}

/// Checks everything that can be checked, then starts the ranks and supervises them, or, in a process that a
/// launcher or a lockstep parent started, is one of the ranks.
int run_bench(BenchPlan plan) {
  const train::JobSite& here = plan.job.site;
  if (!here.supervised()) {
    check_start(plan);
    note_unused_gpus(plan.options, here);
    note_missing_kernels(plan.options, here);
  }
  if (plan.options.dry_run) {
    if (here.speaks()) print_result(plan_text(std::move(plan)));
    return kExitDone;
  }
  // A launcher's ranks may be on hosts that do not see the files; its rank 0 checks them before it measures.
  if (!here.environment) check_files(plan.options);
  std::vector<UniqueFd> claims;
  if (!here.supervised() && here.speaks()) {
    claims = claim_outputs(outputs_of(plan.options));
    plan.kept = prepare_record(plan.options);
  }
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
  for (const std::string& left_out : plan.over_memory_limit) {
    if (speaks) print_note("left out: " + left_out);
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
