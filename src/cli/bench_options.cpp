#include "bench_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  flags.add(
      "--max-time", sweep.pacing.max_time_s,
      "seconds after which a row ends in any case, warm-up included [60; without limit where --steps is "
      "given]",
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
  flags.add(
      "--memory-limit", options.memory_limit_mb,
      "leave out rows whose ranks need more memory each, as far as that can be estimated (8GiB), and name "
      "the fastest of the others",
      {.value = "SIZE", .numbers = strategies::kBucketSizes});
  flags.add("--lr", sweep.common.learning_rate, "learning rate; 0 leaves the optimizer's update out",
            {.numbers = NumberRange{}});
}

void add_output_flags(Flags& flags, BenchOptions& options) {
  flags.begin_group("Output");
  flags.add("--json", options.json_path, "write the result record to this file", {.value = "FILE"});
  flags.add_switch("--append", options.append, "add this launch to the launches that the --json file holds",
                   FlagUse{.needs = "--json"});
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

constexpr const char* kRandomData = "random images and labels, made once on the device and used in turn";

/// ResNet-MultiGPU's resnet-multigpu.py: the first of its epochs of 50 steps warms up.
Preset tensorpack(const char* row, int batch, const char* more, std::vector<std::string> differences) {
  differences.emplace_back("labels are made once, not in every step; images are fp32, not uint8");
  return {fmt::format("tensorpack/benchmarks, README of ResNet-MultiGPU: {}", row),
          fmt::format("--model resnet50_v1 --batch {} --input device --memory-format contiguous --lr 0.1 "
                      "--momentum 0 --weight-decay 1e-4 --warmup 50 --steps 450 --style tensorpack {}",
                      batch, more),
          std::move(differences)};
}

/// The speed-up notebook; as many steps as make 5120 images on one device.
Preset theano_mpi(const char* row, const char* model, int batch, const char* learning_rate,
                  const char* weight_decay, std::vector<std::string> differences) {
  differences.emplace_back(fmt::format("{}, not ImageNet from a loader process", kRandomData));
  differences.emplace_back(
      "one learning rate, not twice as much for biases; momenta are averaged, not summed");
  differences.emplace_back(
      "the source says NCCL32 and half precision of the same numbers; --exchange nccl16 sends the latter");
  return {fmt::format("Theano-MPI, speedup-n_workers.ipynb: {}", row),
          fmt::format("--model {} --batch {} --strategy bsp --exchange nccl32 --bsp-sync cdd --input device "
                      "--memory-format contiguous --lr {} --momentum 0.9 --weight-decay {} --steps {} "
                      "--style theano",
                      model, batch, learning_rate, weight_decay, 5120 / batch),
          std::move(differences)};
}

/// A flag and its value.
using Setting = std::pair<std::string, std::string>;

std::vector<Setting> settings_of(const Preset& preset) {
  std::vector<Setting> settings;
  std::istringstream words(preset.flags);
  for (Setting one; words >> one.first >> one.second;) settings.push_back(one);
  return settings;
}

/// A flag of the user's that settles what a preset's flag would set.
struct StandIn {
  const char* flag;
  const char* user_flag;
};

constexpr std::array<StandIn, 5> kStandIns{{{"--batch", "--global-batch"},
                                            {"--steps", "--precision-target"},
                                            {"--steps", "--max-time"},
                                            {"--warmup", "--precision-target"},
                                            {"--warmup", "--max-time"}}};

bool chosen_otherwise(const std::string& flag, const Flags& given) {
  if (given.given(flag)) return true;
  return std::ranges::any_of(kStandIns, [&](const StandIn& stand_in) {
    return flag == stand_in.flag && given.given(stand_in.user_flag);
  });
}

/// Whether one of the strategies knows a flag of the group "Strategy"; other flags apply to all.
bool means_something(const std::string& flag, const std::vector<std::string>& strategies) {
  const auto& options = strategies::option_infos();
  const auto option = std::ranges::find(options, flag, &strategies::OptionInfo::flag);
  if (option == options.end()) return true;
  return std::ranges::any_of(strategies, [&](const std::string& name) {
    return option->concerns(strategies::resolve(name, {}).strategy);
  });
}

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
  check_output_files(outputs_of(options), inputs_of(options.sweep), options.force);
}

// Each row names the table that published it, the flags that come closest, and in words all that still
// differs. A flag that no row sets has lockstep's default.
const Registry<Preset>& presets() {
  static const Registry<Preset> all(
      "preset", "lockstep info presets",
      {{"pytorch-throughput",
        {"xuewanqi/pytorch_throughput, README: 32 images per K80",
         "--model resnet50 --batch 32 --strategy ddp --input device --memory-format contiguous --lr 0.1 "
         "--momentum 0.9 --weight-decay 1e-5 --warmup 5 --steps 495 --style throughput",
         {"forward and backward end when they are done, not when their kernels are launched",
          "ddp on one node too, where the source has a script with nn.DataParallel as well"}}},
       {"tensorpack-replicated", tensorpack("replicated, input gpu, batch 64", 64, "--strategy replicated",
                                            {"gradients are averaged, not summed"})},
       {"tensorpack-parameter-server",
        tensorpack("parameter_server, input gpu, batch 64", 64,
                   "--strategy parameter_server --parameter-owners rank0",
                   {"rank 0 holds and updates all variables, where the source's host does"})},
       {"tensorpack-horovod",
        tensorpack("horovod, 8 V100, batch 64", 64, "--strategy horovod --cycle-ms 5 --fusion-mb 64",
                   {"cycle and fusion are Horovod's defaults of 2019; the row does not state them"})},
       {"tensorpack-fp16-128",
        tensorpack("replicated, fp16, 8 V100, batch 128, not compiled", 128,
                   "--strategy replicated --precision bf16",
                   {"bf16 (autocast) in place of fp16, which lockstep trains in on GPUs only",
                    "gradients are averaged, not summed, and sent in fp32",
                    "nothing is compiled: the row with XLA has no counterpart here"})},
       {"tf-cnn-benchmarks",
        {"tf_cnn_benchmarks in tensorpack/benchmarks, README of ResNet-MultiGPU: replicated, batch 64",
         "--model resnet50_v1 --batch 64 --strategy replicated --input device --memory-format contiguous "
         "--lr 0.032 --momentum 0 --weight-decay 4e-5 --warmup 10 --steps 100 --style tensorpack",
         {"gradients are averaged, not summed; the learning rate is that of one device, 0.128 * 64 / 256",
          "--strategy parameter_server gives the other row of the same system"}}},
       {"pytorch-ddp",
        {"pytorch/pytorch, README of benchmarks/distributed/ddp",
         "--model resnet50,resnet101,resnext50_32x4d,resnext101_32x8d --batch 32 --strategy ddp "
         "--bucket-mb 25 --input device --memory-format contiguous --lr 0.001 --momentum 0.9 "
         "--weight-decay 1e-4 --warmup 5 --steps 10 --style ddp",
         {fmt::format("{}, not one batch of one label", kRandomData),
          "gradients are cleared in every step"}}},
       {"theano-mpi-googlenet-32b",
        theano_mpi("GoogLeNet-32b", "googlenet_aux", 32, "0.005", "2e-4",
                   {"torchvision's network with batch norm (13,004,888 parameters), not the paper's with "
                    "local response normalisation (13,378,280)"})},
       {"theano-mpi-alexnet-128b", theano_mpi("AlexNet-128b", "alexnet_caffe", 128, "0.01", "5e-4", {})},
       {"theano-mpi-vgg16-16b", theano_mpi("VGG16-16b", "vgg16", 16, "0.002", "5e-4", {})},
       {"theano-mpi-vgg16-32b", theano_mpi("VGG16-32b", "vgg16", 32, "0.002", "5e-4", {})},
       {"theano-mpi-resnet50-64b", theano_mpi("ResNet50-64b", "resnet50_v1", 64, "0.025", "1e-4",
                                              {"the first convolution has no bias beside its batch norm"})}});
  return all;
}

std::string apply_preset(const std::string& name, Flags& flags, const train::SweepOptions& sweep) {
  const Preset& preset = presets().get(name);
  std::vector<std::string> overridden;
  const auto apply = [&](const std::string& flag, const std::string& value) {
    if (chosen_otherwise(flag, flags) || !means_something(flag, sweep.strategies)) {
      overridden.push_back(flag + " " + value);
      return;
    }
    flags.set(flag, value);
  };
  // The strategy first: it decides which of the other flags apply.
  std::vector<Setting> settings = settings_of(preset);
  std::ranges::stable_partition(settings, [](const Setting& one) { return one.first == "--strategy"; });
  for (const auto& [flag, value] : settings) apply(flag, value);

  std::string text = fmt::format("preset {}: {}\n  stands for {}", name, preset.source, preset.flags);
  if (!overridden.empty()) {
    text += fmt::format("\n  replaced by your flags: {}", fmt::join(overridden, " "));
  }
  for (const std::string& difference : preset.differences) text += "\n  not as there: " + difference;
  return text;
}

}  // namespace lockstep::cli
