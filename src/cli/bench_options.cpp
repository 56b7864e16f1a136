#include "bench_options.h"

#include <algorithm>
#include <charconv>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/registry.h"
#include "lockstep/strategies/strategy.h"

#include "row_flags.h"
#include "strategy_flags.h"
#include "style_flags.h"

namespace lockstep::cli {
namespace {

constexpr const char* kBenchExamples = R"(Examples:
  lockstep bench
      ResNet-50, its default batch, 1, 2, 4, ... ranks up to the number of cores
  lockstep bench --model resnet50,resnet101 --batch 16 --ranks 1,2 --json result.json
      two networks, and a result file that PyTorch's diff.py reads too
  lockstep bench --model resnet18 --image-size 64 --bucket-mb 1,5,25 --ranks 2
      what the bucket size does
  mpirun -np 2 lockstep bench --backend mpi
      the ranks that mpirun starts (srun and torchrun likewise)
  lockstep bench --breakdown --trace trace.json
      where the time of a step goes, and a trace that ui.perfetto.dev opens
  lockstep bench --limit --layers --ranks 1
      what of the processor's limit is reached, and which layers are slow
  lockstep bench --style throughput
      forward, backward and overall images/s, as another benchmark prints them
  lockstep bench --repeat 5 --json a.json
      five launches, so that 'lockstep diff' can tell a change from noise
  lockstep bench --strategy replicated --ranks 4 --tune buckets
      the bucket size that suits this network, these ranks and this backend best
  lockstep bench --global-batch 64 --ranks 1,2,4
      strong scaling: the same work in every row
  lockstep bench --preset theano-mpi-alexnet-128b --max-time 60
      what a published row was measured with, but for as long as you say
  lockstep bench --model lenet5 --input dataset --data data/digits
      real data: MNIST's IDX files, CIFAR-10's binary files, or images in a folder per class
  lockstep bench --input queue --prefetch 8 --input-workers 2
      random images made by 2 threads per rank, 8 batches ahead, and how often a step waited for one
  lockstep bench --input zmq --address ipc:///tmp/batches --ranks 1
      batches that another process sends: lockstep feed --address ipc:///tmp/batches
  lockstep bench --device cuda --ranks 1,2,4,8 --precision bf16 --batch 256
      GPUs, one for every rank, over NCCL
  lockstep bench --device cuda --ranks 1 --precision bf16 --cuda-graph
      what a small batch gains when the GPU is told a step once, and not again every time
  lockstep bench --device cuda --ranks 2 --share-device
      two ranks on one GPU, over gloo: that all works, not how fast
  lockstep bench --dry-run
      what would be measured, how long it would take, how much memory it needs
)";

}  // namespace

void add_bench_flags(CLI::App& command, BenchOptions& options) {
  train::SweepOptions& sweep = options.sweep;
  command.footer(kBenchExamples);
  const std::string what = "What to measure (lists separated by commas sweep)";
  command
      .add_option(
          "--preset", options.preset,
          "the settings of a published row; flags given beside it override it; 'lockstep info presets' "
          "lists them")
      ->type_name("NAME")
      ->group(what);
  command.add_option("--model", sweep.models, "networks; 'lockstep info models' lists them")
      ->delimiter(',')
      ->capture_default_str()
      ->group(what);
  command.add_option("--batch", sweep.batches, "images per rank (weak scaling) [each network's default]")
      ->delimiter(',')
      ->group(what);
  command
      .add_option("--global-batch", sweep.global_batches,
                  "images of the whole job, the same at every number of ranks (strong scaling)")
      ->delimiter(',')
      ->group(what);
  command
      .add_option(
          "--ranks", sweep.ranks,
          "numbers of ranks [powers of two up to the cores, or GPUs, or to what the launcher started]")
      ->delimiter(',')
      ->group(what);
  command
      .add_option("--strategy", sweep.strategies,
                  "how replicas are kept in step; 'lockstep info strategies' lists them")
      ->delimiter(',')
      ->capture_default_str()
      ->group(what);
  command
      .add_option("--precision", sweep.precisions,
                  "fp32, bf16 (autocast); on a GPU also tf32, bf16_pure and fp16")
      ->delimiter(',')
      ->capture_default_str()
      ->group(what);
  command.add_option("--kernels", sweep.kernels, kKernelsHelp)->delimiter(',')->group(what);
  command.add_option("--bucket-mb", sweep.bucket_mb, "cap of a bucket of gradients, in MiB")
      ->delimiter(',')
      ->capture_default_str()
      ->group(what);
  command.add_option("--input", sweep.input, "where batches come from; 'lockstep info inputs' lists them")
      ->capture_default_str()
      ->group(what);
  add_step_flags(command, sweep, what);
  add_input_flags(command, sweep, what);
  add_strategy_flags(command, sweep.strategy_options);

  command
      .add_flag("--cuda-graph", sweep.cuda_graph,
                "record a step on the GPU once, after warm-up, and carry it out again and again; of --device "
                "cuda")
      ->group(what);

  const std::string how = "How to measure";
  command
      .add_option("--precision-target", options.precision_target,
                  "measure until half the width of the 95 % interval of the median step is below this")
      ->capture_default_str()
      ->group(how);
  command.add_option("--max-time", sweep.pacing.max_time_s, "seconds after which a row ends anyway")
      ->capture_default_str()
      ->group(how);
  command.add_option("--steps", sweep.pacing.steps, "measured steps of a row [what the precision takes]")
      ->group(how);
  command
      .add_option("--warmup", sweep.pacing.warmup_steps,
                  "steps before them [until the step time has become stationary]")
      ->group(how);
  command
      .add_option("--repeat", options.repeat,
                  "launch everything so many times; intervals then cover how much launches differ")
      ->capture_default_str()
      ->group(how);
  command
      .add_flag(
          "--breakdown", options.breakdown,
          "measure where the time goes too: phases, buckets, stragglers, and what efficiency is lost to")
      ->group(how);
  command
      .add_flag(
          "--layers", options.layers,
          "time every layer too: forward, backward, GFLOP/s and GB/s, worst first, in steps of their own")
      ->group(how);
  command
      .add_flag(
          "--limit", options.limit,
          "measure what a step takes at least on this processor too, and show what of that a row reaches")
      ->group(how);
  command
      .add_option("--tune", sweep.tune,
                  "buckets: find the best --bucket-mb for each row by measuring, and measure the row with it")
      ->group(how);
  command.add_option("--tune-budget", sweep.tune_budget_s, "seconds per row that --tune may take [60]")
      ->group(how);
  command
      .add_option("--verify-every", sweep.verify_every,
                  "compare the replicas bit for bit every so many steps, outside of what is timed; a "
                  "difference ends the run")
      ->group(how);
  command
      .add_option("--baseline", options.baseline,
                  "the row that speed-ups are relative to: STRATEGY or STRATEGY:RANKS")
      ->capture_default_str()
      ->group(how);
  command
      .add_flag("--no-controls{false}", sweep.controls,
                "leave out the baseline (one rank, no strategy) and the machine's limit (independent)")
      ->group(how);
  command.add_option("--lr", sweep.learning_rate, "learning rate; 0 leaves the optimizer's update out")
      ->capture_default_str()
      ->group(how);

  add_optimizer_flags(command, sweep, how);
  add_rank_flags(command, options.ranks);

  const std::string output = "Output";
  command.add_option("--json", options.json_path, "write the result record here")->group(output);
  command.add_flag("--append", options.append, "add this launch to what --json FILE holds already")
      ->group(output);
  command
      .add_option("--trace", options.trace_path,
                  "write a trace of the breakdown's steps here, which Perfetto opens (implies --breakdown)")
      ->group(output);
  command.add_option("--csv", options.csv_path, "write a row per configuration here")->group(output);
  add_style_flags(command, options.how, output);
  command.add_flag("--dry-run", options.dry_run, "print the plan, the estimated time and memory, and stop")
      ->group(output);
  command.add_flag("-q,--quiet", options.quiet, "no progress and no notes")->group(output);
}

void check_options(const BenchOptions& options) {
  results::styles().get(options.how.style);
  if (options.repeat < 1) {
    throw ConfigError(fmt::format("--repeat must be greater than 0, not {}", options.repeat));
  }
  if (!options.sweep.tune.empty() && (options.repeat > 1 || options.append)) {
    throw ConfigError("--tune could find another cap in every launch, and these would be other rows",
                      "Tune once, then give what it found: --repeat with --bucket-mb.");
  }
  if (options.append && options.json_path.empty()) {
    throw ConfigError("--append needs --json FILE, the file to add this launch to");
  }
}

void check_files(const BenchOptions& options) {
  if (!options.json_path.empty()) check_writable(options.json_path, "--json");
  if (!options.csv_path.empty()) check_writable(options.csv_path, "--csv");
  if (!options.trace_path.empty()) check_writable(options.trace_path, "--trace");
}

void check_device_options(const BenchOptions& options, const std::string& device) {
  if (device == "cuda" && options.limit) {
    throw ConfigError("--limit measures what a step takes at least on a processor, with oneDNN",
                      "Leave --limit out, or use --device cpu.");
  }
  if (device == "cuda" && options.layers) {
    throw ConfigError("--layers takes the time of layers on the host, which a GPU's work comes after",
                      "Leave --layers out, or use --device cpu; --trace shows a step's work on a GPU.");
  }
  if (!options.sweep.cuda_graph) return;
  const char* stamped = !options.trace_path.empty() ? "--trace" : options.breakdown ? "--breakdown" : nullptr;
  const std::string style = results::styles().get(options.how.style).needs_breakdown
                                ? fmt::format("--style {}", options.how.style)
                                : "";
  if (stamped != nullptr || !style.empty()) {
    throw ConfigError(fmt::format("{} stamps the phases of a step, and --cuda-graph makes them one piece",
                                  stamped != nullptr ? stamped : style),
                      "Measure one without the other: the phases of steps that are not recorded.");
  }
}

BaselineChoice choose_baseline(const BenchOptions& options, const std::vector<train::RowPlan>& rows) {
  BaselineChoice choice{options.baseline, 0};
  if (const size_t colon = options.baseline.find(':'); colon != std::string::npos) {
    choice.strategy = options.baseline.substr(0, colon);
    const std::string ranks = options.baseline.substr(colon + 1);
    const auto [end, error] = std::from_chars(ranks.data(), ranks.data() + ranks.size(), choice.ranks);
    if (error != std::errc() || end != ranks.data() + ranks.size() || choice.ranks < 1) {
      throw ConfigError(fmt::format("--baseline {}: '{}' is no number of ranks", options.baseline, ranks),
                        "Write STRATEGY or STRATEGY:RANKS, as in ddp:1.");
    }
  }
  strategies::registry().get(choice.strategy);
  const bool planned = std::ranges::any_of(rows, [&](const train::RowPlan& row) {
    return row.strategy == choice.strategy && (choice.ranks == 0 || row.ranks == choice.ranks);
  });
  // Without controls there is nothing to be relative to unless it was asked for.
  if (!planned && options.baseline != "single") {
    throw ConfigError(fmt::format("--baseline {} is not among the rows that are measured", options.baseline),
                      "Add its strategy to --strategy and its ranks to --ranks.");
  }
  return choice;
}

}  // namespace lockstep::cli
