#include "bench_options.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/registry.h"
#include "lockstep/base/rule.h"
#include "lockstep/strategies/strategy.h"

#include "output_files.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace {

constexpr const char* kBenchExamples = R"(Examples:
  lockstep bench
      ResNet-50, its default batch, 1, 2, 4, ... ranks up to the number of cores
  lockstep bench --model resnet50,resnet101 --batch 16 --ranks 1,2 --json result.json
      two networks, and a result file that PyTorch's diff.py reads too
  lockstep bench --model resnet18 --image-size 64 --bucket-mb 1,5,25 --ranks 2
      the effect of the bucket size
  mpirun -np 2 lockstep bench --backend mpi
      ranks that mpirun starts (srun and torchrun work the same way)
  lockstep bench --breakdown --trace trace.json
      where the time of a step goes, and a trace that ui.perfetto.dev opens
  lockstep bench --style throughput
      forward, backward and overall images/s, as another benchmark prints them
  lockstep bench --repeat 5 --json a.json
      five launches, so that 'lockstep diff' can tell a change from noise
  lockstep bench --strategy replicated --ranks 4 --tune buckets
      the best bucket size for this network, these ranks and this backend
  lockstep bench --global-batch 64 --ranks 1,2,4
      strong scaling: the same work in every row
  lockstep bench --preset theano-mpi-alexnet-128b --max-time 60
      the settings of a published row, measured for at most a minute
  lockstep bench --model lenet5 --input dataset --data data/digits
      real data: MNIST's IDX files, CIFAR-10's binary files, or images in a folder per class
  lockstep bench --input queue --prefetch 8 --input-workers 2
      random images made by 2 threads per rank, 8 batches ahead, and how often a step waited for a batch
  lockstep bench --input zmq --address ipc:///tmp/batches --ranks 1
      batches from another process: lockstep feed --address ipc:///tmp/batches
  lockstep bench --device cuda --ranks 1,2,4,8 --precision bf16 --batch 256
      a GPU for every rank, over NCCL
  lockstep bench --device cuda --ranks 1 --precision bf16 --cuda-graph
      what a small batch gains when a step is recorded once and replayed
  lockstep bench --device cuda --ranks 2 --share-device
      two ranks on one GPU, over gloo: shows that everything works, not how fast
  lockstep bench --dry-run
      what would be measured, how long it would take, and how much memory it needs
)";

void add_measuring_flags(Flags& flags, BenchOptions& options) {
  train::SweepOptions& sweep = options.sweep;
  flags.begin_group("How to measure");
  flags.add(
      "--precision-target", sweep.pacing.precision_target,
      "measure until half the widths of the 95 % intervals of the median and the mean step are below this "
      "share of them",
      {.value = "SHARE",
       .numbers = NumberRange{.most = 1, .above = true, .below = true, .unit = Unit::kShare}});
  flags.add("--min-time", sweep.pacing.min_time_s,
            "seconds of steps that a row measures at least, unless --steps or --max-time ends it",
            {.numbers = NumberRange{.most = 1e6, .unit = Unit::kSeconds}});
  flags.add("--max-time", sweep.pacing.max_time_s,
            "seconds after which a row ends in any case [60; without limit where --steps is given]",
            {.numbers = times_from(0)});
  flags.add("--steps", sweep.pacing.steps, "measured steps per row [as many as --precision-target needs]",
            {.numbers = counts_up_to(kMostSteps)});
  flags.add("--warmup", sweep.pacing.warmup_steps,
            "steps before the measured ones [until the step time is stationary]",
            {.numbers = NumberRange{.most = kMostSteps}});
  flags.add("--repeat", options.repeat,
            "launches, each of all rows with new processes; intervals then cover how much launches differ",
            {.numbers = counts_up_to(1000)});
  flags.add_switch("--breakdown", options.breakdown,
                   "measure where the time goes too: phases, buckets, stragglers, and the causes of lost "
                   "efficiency");
  flags.add("--tune", sweep.tune,
            "buckets: find each row's best --bucket-mb by measuring, then measure the row with it [nothing]",
            {.one_of = {"buckets"}});
  flags.add("--tune-budget", sweep.tune_budget_s, "seconds per row that --tune may take [60]",
            {.numbers = times_from(0)});
  flags.add("--verify-every", sweep.verify_every,
            "steps between bitwise comparisons of the replicas, outside of what is timed; a difference ends "
            "the run [never]",
            {.numbers = counts_up_to(kMostSteps)});
  flags.add("--baseline", options.baseline,
            "the row that speed-ups are relative to: STRATEGY or STRATEGY:RANKS");
  flags.add_switch("--no-controls", sweep.controls,
                   "leave out the baseline (one rank, no strategy) and the machine's limit (independent)");
  flags.add("--lr", sweep.common.learning_rate, "learning rate; 0 leaves the optimizer's update out",
            {.numbers = NumberRange{}});
}

void add_output_flags(Flags& flags, BenchOptions& options) {
  flags.begin_group("Output");
  flags.add("--json", options.json_path, "write the result record to this file", {.value = "FILE"});
  flags.add_switch("--append", options.append, "add this launch to the launches that the --json file holds");
  flags.add("--trace", options.trace_path,
            "write a trace of the breakdown's steps to this file, for Perfetto; implies --breakdown",
            {.value = "FILE"});
  flags.add("--csv", options.csv_path, "write a line per row to this file", {.value = "FILE"});
  add_force_flag(flags, options.force);
  add_style_flags(flags, options.how);
  flags.add_switch("--dry-run", options.dry_run, "print the plan with estimated time and memory, and stop");
  flags.add_switch("-q,--quiet", options.quiet, "print no progress and no notes");
}

void check_tuning_of_launches(const BenchOptions& options) {
  if (options.sweep.tune.empty() || (options.repeat == 1 && !options.append)) return;
  throw ConfigError("--tune could find another cap in every launch, and these would be other rows",
                    "Tune once, then give what it found: --repeat with --bucket-mb.");
}

void check_append(const BenchOptions& options) {
  if (!options.append || !options.json_path.empty()) return;
  throw ConfigError("--append needs --json FILE, the file to add this launch to");
}

void check_ranks_of_single(const BenchOptions& options) {
  const train::SweepOptions& sweep = options.sweep;
  if (sweep.controls || sweep.ranks.empty() || std::ranges::max(sweep.ranks) == 1) return;
  if (!std::ranges::all_of(sweep.strategies, [](const auto& name) { return name == results::kSingle; }))
    return;
  throw ConfigError(fmt::format("--ranks {} has no effect on the strategy single, which trains on one rank",
                                std::ranges::max(sweep.ranks)),
                    "Add a strategy, or leave out --no-controls: 'independent' is measured then.");
}

/// Checked before the job's site is inspected, which may take seconds.
constexpr Rule<BenchOptions> kFlagRules[] = {
    [](const BenchOptions& options) { check_style(options.how); },
    &check_ranks_of_single,
    &check_tuning_of_launches,
    &check_append,
};

void check_stamps_in_recorded_steps(const BenchOptions& options, const train::JobSite& /*site*/) {
  if (!options.sweep.common.cuda_graph) return;
  // Names the flag that was typed rather than the style that implies it.
  std::string stamped;
  if (results::styles().get(options.how.style).needs_breakdown) stamped = "--style " + options.how.style;
  if (options.breakdown) stamped = "--breakdown";
  if (!options.trace_path.empty()) stamped = "--trace";
  if (stamped.empty()) return;
  throw ConfigError(
      fmt::format("{} stamps the phases of a step, and --cuda-graph makes them one piece", stamped),
      "Measure one without the other: the phases of steps that are not recorded.");
}

void check_repeat_under_launcher(const BenchOptions& options, const train::JobSite& site) {
  if (options.repeat == 1 || site.supervised() || !site.environment) return;
  throw ConfigError(fmt::format("--repeat launches ranks anew, but {} started these",
                                to_string(site.environment->launcher)),
                    "Run the whole command several times with --json FILE --append.");
}

void check_repeat_of_threads(const BenchOptions& options, const train::JobSite& site) {
  if (options.repeat == 1 || site.environment || site.options.launch != "threads") return;
  throw ConfigError("--repeat launches ranks anew, and threads of one process are not new",
                    "Use --launch processes, or run the command several times with --json FILE --append.");
}

/// Checked once device and launcher are known.
constexpr Rule<BenchOptions, train::JobSite> kSiteRules[] = {
    &check_stamps_in_recorded_steps,
    &check_repeat_under_launcher,
    &check_repeat_of_threads,
};

}  // namespace

void add_bench_flags(Flags& flags, BenchOptions& options) {
  const std::string group = "What to measure (lists separated by commas sweep)";
  flags.set_examples(kBenchExamples);
  flags.begin_group(group);
  flags.add("--preset", options.preset,
            "the settings of a published row, which flags beside it override; 'lockstep info presets' lists "
            "them",
            {.value = "NAME"});
  add_row_flags(flags, options.sweep, Rows::kSweep, group,
                "powers of two up to the cores, or GPUs, or the launcher's ranks");
  add_training_flags(flags, options.sweep, Rows::kSweep, group, "");
  flags.add_switch("--cuda-graph", options.sweep.common.cuda_graph,
                   "record a step on the GPU once, after warm-up, and replay it; needs --device cuda");
  add_measuring_flags(flags, options);
  add_job_flags(flags, options.job);
  add_output_flags(flags, options);
}

void check_flags(const BenchOptions& options) {
  require_all(kFlagRules, options);
}

void check_on_site(const BenchOptions& options, const train::JobSite& site) {
  require_all(kSiteRules, options, site);
}

BaselineChoice choose_baseline(const BenchOptions& options, const std::vector<train::RowPlan>& rows) {
  BaselineChoice choice{options.baseline, 0};
  if (const size_t colon = options.baseline.find(':'); colon != std::string::npos) {
    choice.strategy = options.baseline.substr(0, colon);
    const std::string ranks = options.baseline.substr(colon + 1);
    const auto [end, error] = std::from_chars(ranks.data(), ranks.data() + ranks.size(), choice.ranks);
    if (error != std::errc() || end != ranks.data() + ranks.size() || choice.ranks < 1) {
      throw ConfigError(fmt::format("--baseline {}: '{}' is not a number of ranks", options.baseline, ranks),
                        "Write STRATEGY or STRATEGY:RANKS, as in ddp:1.");
    }
  }
  strategies::registry().get(choice.strategy);
  const bool planned = std::ranges::any_of(rows, [&](const train::RowPlan& row) {
    return row.strategy == choice.strategy && (choice.ranks == 0 || row.ranks == choice.ranks);
  });
  // The default baseline may be missing, as with --no-controls: the tables then show no speed-ups.
  if (!planned && options.baseline != results::kSingle) {
    throw ConfigError(fmt::format("--baseline {} is not among the rows that are measured", options.baseline),
                      "Add its strategy to --strategy and its ranks to --ranks.");
  }
  return choice;
}

std::vector<GivenFile> outputs_of(const BenchOptions& options) {
  return {{"--json", options.json_path}, {"--csv", options.csv_path}, {"--trace", options.trace_path}};
}

void check_files(const BenchOptions& options) {
  refuse_stdout(outputs_of(options));
  check_output_files(outputs_of(options), {}, options.force);
}

}  // namespace lockstep::cli
