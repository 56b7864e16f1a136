#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/measure/series.h"
#include "lockstep/measure/stopping.h"
#include "lockstep/results/record/kernel_trial.h"
#include "lockstep/results/record/recorded.h"
#include "lockstep/results/record/replica_state.h"
#include "lockstep/results/record/resources.h"
#include "lockstep/results/record/setup.h"
#include "lockstep/results/record/training_record.h"
#include "lockstep/topology/gpu_use.h"
#include "lockstep/topology/rank_gpus.h"
#include "lockstep/topology/system.h"

namespace lockstep::results {

/// Version of the JSON schema under the key `lockstep`; docs/json.md lists what each version added.
constexpr int kSchemaVersion = 2;

using topology::Machine;

/// Why an interval of an unfinished run is missing.
constexpr const char* kUnfinished = "unfinished";
/// Why a record is incomplete, and its last row unfinished, while its run goes on. Written in advance,
/// because a killed run cannot write it.
constexpr const char* kNotEnded = "the run has not ended, or ended without a word";

/// Source of a record of published results.
constexpr const char* kPublished = "published";
/// Source of a record of somebody's own training (lockstep import).
constexpr const char* kRecordedSource = "recorded";

/// A reason to trust the result less, and advice.
struct Warning {
  std::string text;
  std::string advice;
  /// The numbers are misleading (more ranks than cores), not only noisier.
  bool loud = false;
  /// The number of launches of the row, or of the record, with this warning.
  int launches = 1;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("text", self.text, kRequired);
    LOCKSTEP_FIELDS(kOptional, advice, loud, launches);
  }
};

/// The run that a number is relative to.
struct Baseline {
  std::string strategy;
  int ranks = 0;
  double images_per_s = 0;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& baseline) {
    fields("strategy", baseline.strategy, kRequired);
    fields("ranks", baseline.ranks, kAtLeastOne);
    fields("images_per_s", baseline.images_per_s);
  }
};

/// The baseline measured once more, after the last row of its network and settings (in the launch that
/// drifted most).
struct Again {
  double images_per_s = 0;
  /// That rate over the one before, and its 95 % interval.
  double ratio = 1;
  std::optional<Interval> ratio_interval;
  /// Seconds of each step.
  std::vector<double> samples;

  LOCKSTEP_DESCRIBE(kOptional, images_per_s, ratio, ratio_interval, samples)
};

using measure::StepPercentiles;

/// A quantity that a strategy measured of itself, over all steps of a row, warm-up included.
struct OwnMeasure {
  /// Seconds where it ends in _s, a number otherwise.
  std::string name;
  double value = 0;
  /// "per step" (mean over ranks and steps), "in all" (over ranks and steps), "mean", "most".
  std::string over;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& measure) {
    fields("name", measure.name, kRequired);
    fields("value", measure.value, {.missing_is_nan = true});
    fields("over", measure.over);
  }
};

/// How a queue between where batches come from and the step was used, by all ranks together, over all steps
/// of a launch but the first.
struct InputQueue {
  /// "made", "read" or "received" by producers; "staged", on the device, which is what the step waits for.
  std::string name;
  /// Batches that the queue of one rank holds, and threads that fill it.
  int capacity = 0;
  int producers = 1;
  /// Batches taken.
  int64_t batches = 0;
  /// Batches that were ready when one was wanted, mean.
  double depth = 0;
  /// How often one was wanted and was not ready, and how long was waited for these, in all.
  int64_t empty = 0;
  double empty_s = 0;
  /// How often a producer found no room, and how long it waited, in all.
  int64_t full = 0;
  double full_s = 0;
  /// Throughput, counted in 8-bit pixels; sum over the ranks.
  double images_per_s = 0;
  double gb_per_s = 0;
  /// Mean time that a producer worked on one batch; empty: none was made.
  std::optional<double> producer_s;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("name", self.name, kRequired);
    LOCKSTEP_FIELDS(kOptional, capacity, producers, batches, depth, empty, empty_s, full, full_s,
                    images_per_s, gb_per_s, producer_s);
  }
};

/// One measured configuration, a row of the tables: its settings, its ending (of several launches the last
/// one's; `unsettled` of the last that was not settled), and its measurements.
struct Run : Setup, measure::Ending {
  /// How LibTorch was set to compute on GPUs: "fp32 matrix products in ieee, convolutions in tf32"; empty on
  /// a CPU.
  std::string device_settings;
  /// Sum over all launches.
  int warmup_steps = 0;
  /// Why the row ended before all of it was measured; empty for a whole row. An unfinished row has the steps
  /// until then; it has no intervals and no speed-up, and nothing is compared with it.
  std::string unfinished;
  /// Whether a step of the job is the longest of its ranks' (true), or every rank goes its own way.
  bool coupled = true;

  /// Time of the measured steps, on the rank that took longest; sum over all launches.
  double elapsed_s = 0;
  /// Over the per-step maxima (coupled), or over the own steps of the slowest rank (uncoupled).
  StepPercentiles step_s;
  /// Images per second of the whole job.
  double images_per_s = 0;
  std::optional<double> speedup;
  std::optional<double> efficiency;
  std::optional<Baseline> baseline;
  /// 95 % interval of the speed-up (assign_baselines); empty for the baseline, which is 1 by definition, and
  /// where there is no speed-up.
  std::optional<Interval> speedup_interval;
  /// Of a baseline.
  std::optional<Again> again;
  /// Why its speed-up and efficiency cannot be true (assign_doubts); empty where nothing speaks against them.
  std::string doubt;
  /// The speed-up that a publication states, by a formula of its own.
  std::optional<double> stated_speedup;
  double loss_first = 0;
  double loss_last = 0;
  /// samples[step][rank]: seconds, after warm-up; with --sync-every the mean steps of whole periods. For an
  /// uncoupled run the ranks' steps of the same index, as many as the rank with the fewest has. An unfinished
  /// run may have only the first ranks, those of rank 0's host.
  std::vector<std::vector<double>> samples;
  /// The same for the steps before.
  std::vector<std::vector<double>> warmup_samples;
  /// The number of `samples` and of `warmup_samples` of each launch, in order; both empty: all are of one
  /// launch.
  std::vector<int> launch_steps;
  std::vector<int> launch_warmup_steps;
  /// From a file of PyTorch's DDP benchmark, which does not assign samples to ranks: every sample is a
  /// step of its own in `samples`, with one entry. Published results have no samples, and a breakdown without
  /// ranks.
  bool pooled = false;
  std::vector<Warning> warnings;

  /// 95 % interval of the median step in seconds, over launches where there are several; empty where none was
  /// computed.
  std::optional<Interval> step_interval_s;
  /// The same of images_per_s.
  std::optional<Interval> rate_interval;
  /// From a run of its own with the same settings.
  std::optional<Breakdown> breakdown;
  std::optional<EfficiencyFactors> factors;
  std::optional<Resources> resources;
  /// [rank]: the driver's reports on its GPU while it was measured; of the last launch. Empty on a CPU.
  std::vector<topology::GpuUse> gpu_use;
  /// Measured in the last launch.
  std::vector<OwnMeasure> own_measures;
  /// Queues of the last launch, the one nearest to the step last; empty if all batches exist from the
  /// beginning.
  std::vector<InputQueue> input_queues;

  /// From `--verify-every`.
  std::optional<ReplicaChecks> replica_checks;
  std::optional<ReplicaMemory> memory;
  /// The same as it was estimated before the run, of any rank.
  std::optional<ReplicaMemory> predicted_memory;
  /// From `--tune`.
  std::optional<BucketTuning> tuning;
  /// Of a training that lockstep did not run itself.
  std::optional<Recorded> recorded;

  bool finished() const { return unfinished.empty(); }
  /// Ranks that the samples and the breakdown are of.
  int measured_ranks() const { return recorded ? static_cast<int>(recorded->ranks.size()) : ranks; }
  /// The rank at a place in them: a recording may lack some.
  int rank_at(size_t place) const { return recorded ? recorded->ranks[place] : static_cast<int>(place); }
  bool is_straggler(size_t place) const { return breakdown && breakdown->straggler == rank_at(place); }
  /// 95 % interval of the efficiency, which is the speed-up times a constant.
  std::optional<Interval> efficiency_interval() const {
    if (!speedup_interval || !baseline || ranks == 0) return std::nullopt;
    Interval interval = *speedup_interval;
    interval.low *= static_cast<double>(baseline->ranks) / ranks;
    interval.high *= static_cast<double>(baseline->ranks) / ranks;
    return interval;
  }
  /// Images that one rank computes in a step, in the row's unit.
  double images_per_rank_step() const {
    if (recorded && recorded->samples_per_step > 0) return recorded->samples_per_step;
    return static_cast<double>(batch_per_rank) * accumulate * static_cast<double>(units_per_sample);
  }

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    Setup::describe(fields, self);
    fields("device_settings", self.device_settings, kNullable);
    fields("warmup_steps", self.warmup_steps);
    measure::Ending::describe(fields, self);
    fields("unfinished", self.unfinished, kNullable);
    LOCKSTEP_FIELDS(kOptional, coupled, pooled, elapsed_s);
    fields("step_s", self.step_s, kRequired);
    LOCKSTEP_FIELDS(kOptional, step_interval_s, images_per_s);
    fields("images_per_s_interval", self.rate_interval);
    LOCKSTEP_FIELDS(kOptional, speedup, speedup_interval, stated_speedup, efficiency);
    fields.derived("efficiency_interval", self.efficiency_interval());
    LOCKSTEP_FIELDS(kOptional, baseline, again)
    fields("doubt", self.doubt, kNullable);
    LOCKSTEP_FIELDS(kOptional, factors, breakdown, resources, gpu_use, memory, predicted_memory, tuning,
                    replica_checks, own_measures, input_queues, recorded);
    fields.group("loss", [&](auto& loss) {
      loss("first", self.loss_first, {.missing_is_nan = true});
      loss("last", self.loss_last, {.missing_is_nan = true});
    });
    LOCKSTEP_FIELDS(kOptional, warnings, launch_steps, launch_warmup_steps);
    fields("samples", self.samples, kRequired);
    fields("warmup_samples", self.warmup_samples);
  }
};

/// All measurements of one invocation of `lockstep bench`. Writers, readers and plots are functions of it.
struct RunRecord {
  /// The program that wrote it: "lockstep", or "pytorch" for a file of PyTorch's DDP benchmark; kPublished
  /// for results that others published (data/published); kRecordedSource.
  std::string source = "lockstep";
  int schema_version = kSchemaVersion;
  std::string lockstep_version;
  std::string torch_version;
  /// Empty on a CPU.
  std::string cuda_version;
  std::string cudnn_version;
  /// [rank]: the GPU of each; empty on a CPU.
  std::vector<topology::RankGpu> rank_gpus;
  /// Library and version of each backend used: "Gloo 0.0~git20220518 (TCP)".
  std::string backend_detail;
  /// The kernels of all rows, in order; empty: the file does not say.
  std::vector<std::string> kernels;
  /// Library, version and instruction set of the fused ones: "oneDNN 3.2.0, avx512_core"; empty where no row
  /// has them.
  std::string kernel_detail;
  /// How the kernels of rows were chosen that left them to a trial.
  std::vector<KernelTrial> kernel_trials;
  /// UTC, ISO 8601; of the first launch.
  std::string started_at;
  /// Start of every launch, in order; empty if there was one.
  std::vector<std::string> launches_started_at;
  std::vector<std::string> command;
  std::vector<Machine> machines;
  /// How ranks came to be ("processes", "threads", "mpirun", ...), and how they were pinned ("core", ...).
  std::string launch;
  std::string binding;
  /// The most ranks of any row, and the threads that each has in every row; 0: not known.
  int ranks = 0;
  int threads_per_rank = 0;
  /// Processor numbers of each rank, as text ("0", "0-3"); empty where not pinned.
  std::vector<std::string> rank_cpus;
  /// Whether freed memory is kept by the process (base/allocator.h).
  std::string allocator;
  std::vector<Warning> warnings;
  std::vector<Run> runs;
  /// `--memory-limit`, and the rows that it left out, in words; 0: none was given.
  int64_t memory_limit_bytes = 0;
  std::vector<std::string> over_memory_limit;
  /// Why the run ended before all was measured; empty for a complete run.
  std::string incomplete;

  /// The strategies asked for, in order. Runs of others (`single`, `independent`) are controls: they are
  /// shown beside these, not as tables of their own. Empty: every strategy that occurs but `single`.
  std::vector<std::string> strategies;
  /// The row that speed-ups are relative to: a strategy, and its number of ranks (0: the fewest that were
  /// measured).
  std::string baseline_strategy = kSingle;
  int baseline_ranks = 0;
  /// Values at the top level of the file, for PyTorch's own diff.py: the first of each list in a sweep.
  std::string distributed_backend;
  double bucket_size_mb = 25;
  /// All bucket sizes of the sweep, in MiB; empty: the one above.
  std::vector<double> bucket_sizes_mb;
  /// The content of a file of `lockstep train`, which has no runs and a form of its own.
  std::optional<TrainingRecord> training;

  /// The part of the file that is lockstep's own, without the version of the schema.
  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("source", self.source);
    fields("version", self.lockstep_version);
    fields("started_at", self.started_at, kNullable);
    fields("launches_started_at", self.launches_started_at);
    fields("incomplete", self.incomplete, kNullable);
    fields("command", self.command);
    LOCKSTEP_FIELDS(kNullable, launch, binding, ranks, threads_per_rank);
    LOCKSTEP_FIELDS(kOptional, rank_cpus, rank_gpus);
    fields.derived("gpus_shared", !topology::ranks_by_shared_gpu(self.rank_gpus).empty());
    LOCKSTEP_FIELDS(kNullable, cudnn_version, allocator, backend_detail);
    fields("kernels", self.kernels);
    fields("kernel_detail", self.kernel_detail, kNullable);
    fields("kernel_trials", self.kernel_trials);
    fields("memory_limit_bytes", self.memory_limit_bytes, kNullable);
    LOCKSTEP_FIELDS(kOptional, over_memory_limit, strategies, bucket_sizes_mb);
    fields.group("baseline", [&](auto& baseline) {
      baseline("strategy", self.baseline_strategy);
      baseline("ranks", self.baseline_ranks, kNullable);
    });
    // "machine" is the host of rank 0; the list is there only where there are several.
    std::optional<Machine> first;
    if (!self.machines.empty()) first = self.machines.front();
    fields("machine", first);
    if constexpr (std::is_const_v<Self>) {
      if (self.machines.size() > 1) fields("machines", self.machines);
    } else {
      fields("machines", self.machines);
      if (self.machines.empty() && first) self.machines.push_back(*first);
    }
    fields("warnings", self.warnings);
    fields("runs", self.runs, kRequired);
  }
};

}  // namespace lockstep::results
