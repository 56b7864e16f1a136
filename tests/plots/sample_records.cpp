#include "plots/sample_records.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/results/record/baseline.h"

namespace lockstep::plots {
namespace {

using results::BucketTimes;
using results::RankBreakdown;
using results::Run;
using results::RunRecord;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Numbers in 0..1 that are the same everywhere (the standard library's distributions are not).
class Dice {
 public:
  double roll() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state_ >> 11) / 9007199254740992.0;
  }

 private:
  uint64_t state_ = 42;
};

Run base_run(const std::string& strategy, int ranks) {
  Run run;
  run.model = "resnet50";
  run.batch_per_rank = 32;
  run.ranks = ranks;
  run.strategy = strategy;
  run.backend = "gloo";
  run.precision = "fp32";
  run.memory_format = "channels_last";
  run.image_size = 224;
  run.bucket_mb = 25;
  run.threads_per_rank = 2;
  run.coupled = strategy != "independent";
  run.parameters = 25557032;
  run.parameter_tensors = 161;
  run.largest_parameter = 2359296;
  run.multiply_adds = 4089184256;
  run.loss_first = 7.12;
  run.loss_last = 6.83;
  return run;
}

/// Steps around `step_s` with noise, a rare slow one, and a warm-up that settles.
void fill_steps(Run& run, double step_s, int steps, Dice& dice) {
  results::RowSeries series;
  for (int rank = 0; rank < run.ranks; ++rank) {
    std::vector<double> warmup, measured;
    for (int i = 0; i < 6; ++i)
      warmup.push_back(step_s * (1 + 2.5 * std::exp(-1.1 * i) + 0.02 * dice.roll()));
    for (int i = 0; i < steps; ++i) {
      const double slow = dice.roll() > 0.97 ? 0.2 * dice.roll() : 0;
      measured.push_back(step_s * (0.985 + 0.03 * dice.roll() + slow));
    }
    series.warmup_s.push_back(warmup);
    series.step_s.push_back(measured);
  }
  if (run.coupled) {
    // Coupled ranks end a step together.
    for (int i = 0; i < steps; ++i) {
      double longest = 0;
      for (const auto& rank : series.step_s) longest = std::max(longest, rank[i]);
      for (auto& rank : series.step_s) rank[i] = longest;
    }
  }
  // Uncoupled ranks are measured from the same time on.
  if (!run.coupled) std::ranges::fill(series.warmup_s, std::vector(series.warmup_s.front()));
  results::summarize(run, series);
  const double median = *run.step_s.p50;
  run.step_interval_s = results::Interval{median * 0.988, median * 1.013, ""};
}

void fill_breakdown(Run& run, double step_s, double wait_share, double transfer_share) {
  results::Breakdown breakdown;
  breakdown.steps = 50;
  constexpr int64_t kSizes[] = {8200000, 31500000, 26260000, 26550000, 9720000};
  for (int rank = 0; rank < run.ranks; ++rank) {
    RankBreakdown each;
    const double tilt = run.ranks > 1 ? 2.0 * rank / (run.ranks - 1) : 1;
    each.mean.step_s = step_s;
    each.mean.input_s = 0.012 * step_s;
    each.mean.forward_s = 0.26 * step_s;
    each.mean.waiting_s = wait_share * step_s * (2 - tilt);
    each.mean.transfer_s = transfer_share * step_s;
    each.mean.optimizer_s = 0.05 * step_s;
    each.mean.other_s = 0.008 * step_s;
    each.mean.backward_s = step_s - each.mean.input_s - each.mean.forward_s - each.mean.exposed_s() -
                           each.mean.optimizer_s - each.mean.other_s;
    const double begin_s = each.mean.input_s + each.mean.forward_s;
    double free_s = 0;
    for (size_t i = 0; run.ranks > 1 && i < std::size(kSizes); ++i) {
      BucketTimes bucket;
      bucket.bytes = kSizes[i];
      bucket.ready_s = begin_s + each.mean.backward_s * (0.12 + 0.22 * static_cast<double>(i));
      bucket.started_s = bucket.ready_s + 0.0005;
      bucket.all_arrived_s = bucket.started_s + wait_share * step_s * (2 - tilt) * 0.5;
      const double moving_s = static_cast<double>(kSizes[i]) / 1e8 * 0.25 * step_s;
      bucket.ended_s = std::max(bucket.all_arrived_s, free_s) + moving_s;
      free_s = bucket.ended_s;
      each.buckets.push_back(bucket);
    }
    each.clock_error_s = 2e-6;
    breakdown.ranks.push_back(each);
  }
  breakdown.mean = breakdown.ranks.front().mean;
  breakdown.mean.waiting_s = wait_share * step_s;
  breakdown.mean.backward_s += breakdown.ranks.front().mean.waiting_s - breakdown.mean.waiting_s;
  breakdown.communication_s = run.ranks > 1 ? 0.31 * step_s : 0;
  if (run.ranks > 2) breakdown.straggler = run.ranks - 1;
  run.breakdown = breakdown;
}

void fill_memory(Run& run, double gib) {
  results::Resources resources;
  for (int rank = 0; rank < run.ranks; ++rank) {
    resources.peak_memory_bytes.push_back(static_cast<int64_t>((gib - 0.002 * rank) * 1073741824.0));
  }
  resources.processor_utilisation = 0.97;
  run.resources = resources;
}

RunRecord header() {
  RunRecord record;
  record.lockstep_version = "0.1.0";
  record.torch_version = "2.11.0";
  record.distributed_backend = "gloo";
  record.backend_detail = "Gloo (TCP)";
  record.started_at = "2026-01-02T03:04:05Z";
  record.command = {"lockstep", "bench", "--model", "resnet50", "--ranks", "1,2,4,8", "--breakdown"};
  record.launch = "processes";
  record.binding = "core";
  for (int i = 0; i < 8; ++i) record.rank_cpus.push_back(std::to_string(2 * i));
  record.ranks = 8;
  record.threads_per_rank = 2;
  record.allocator = "glibc malloc, pages kept";
  results::Machine machine;
  machine.host = "node01";
  machine.os = "Debian GNU/Linux 12 (bookworm)";
  machine.processor = "AMD EPYC 7543 32-Core Processor";
  machine.cores = machine.host_cores = 16;
  machine.memory_bytes = machine.host_memory_bytes = int64_t{64} << 30;
  record.machines.push_back(machine);
  record.strategies = {"ddp"};
  return record;
}

}  // namespace

const char* const kHostileText =
    "<script>alert(1)</script> & \"quotes\" 'single' ]]> \x01\x1b[31m \xff\xc0\xaf \xed\xa0\x80 <img "
    "src=http://example.com/x>";

RunRecord sweep_record(double slower) {
  RunRecord record = header();
  Dice dice;
  const double alone_s = 0.62 * slower;
  Run single = base_run("single", 1);
  fill_steps(single, alone_s, 60, dice);
  fill_breakdown(single, alone_s, 0, 0);
  fill_memory(single, 1.31);
  record.runs.push_back(single);
  struct Row {
    int ranks;
    double machine, strategy, transfer, stragglers;
  };
  for (const Row& row : {Row{1, 1, 0.985, 1, 1}, Row{2, 0.985, 0.985, 0.975, 0.985},
                         Row{4, 0.95, 0.985, 0.95, 0.96}, Row{8, 0.88, 0.985, 0.91, 0.93}}) {
    Run run = base_run("ddp", row.ranks);
    const double step_s = alone_s / (row.machine * row.strategy * row.transfer * row.stragglers);
    fill_steps(run, step_s, 120, dice);
    fill_breakdown(run, step_s, 1 - row.stragglers, (1 - row.transfer) * row.stragglers);
    run.factors = results::EfficiencyFactors{row.machine, row.strategy, row.transfer, row.stragglers};
    fill_memory(run, 1.42 + 0.01 * row.ranks);
    record.runs.push_back(run);
    if (row.ranks == 1) continue;
    Run control = base_run("independent", row.ranks);
    fill_steps(control, alone_s / row.machine, 60, dice);
    fill_memory(control, 1.31);
    record.runs.push_back(control);
  }
  record.warnings.push_back(
      {"The load average was 1.8 before the run.", "Stop what else runs, or use --repeat.", false});
  results::assign_baselines(record);
  return record;
}

RunRecord small_record() {
  RunRecord record = sweep_record();
  std::erase_if(record.runs, [](const Run& run) { return run.ranks > 2; });
  for (Run& run : record.runs) {
    if (run.samples.size() > 24) run.samples.resize(24);
  }
  return record;
}

RunRecord plain_record() {
  RunRecord record = sweep_record();
  record.warnings.clear();
  for (Run& run : record.runs) {
    run.breakdown.reset();
    run.factors.reset();
    run.resources.reset();
    run.step_interval_s.reset();
    run.multiply_adds = 0;
  }
  return record;
}

RunRecord crowded_record() {
  RunRecord record = header();
  record.strategies = {"ddp", "data_parallel"};
  Dice dice;
  double size = 1;
  for (const char* model : {"resnet50", "resnext101_32x8d", "vgg16"}) {
    for (const char* strategy : {"single", "ddp", "data_parallel"}) {
      for (double bucket_mb : {25.0, 1.0}) {
        for (int ranks : {1, 2, 3, 4, 6, 8}) {
          const bool single = std::string(strategy) == "single";
          if (single && (ranks > 1 || bucket_mb != 25)) continue;
          Run run = base_run(strategy, ranks);
          run.model = model;
          run.bucket_mb = bucket_mb;
          const double step_s = 0.2 * size * (1 + 0.02 * ranks + (bucket_mb == 1 ? 0.03 : 0));
          fill_steps(run, step_s, 40, dice);
          fill_breakdown(run, step_s, ranks > 1 ? 0.04 : 0, ranks > 1 ? 0.05 : 0);
          fill_memory(run, 0.8 * size);
          record.runs.push_back(run);
        }
      }
    }
    size *= 2.3;
  }
  results::assign_baselines(record);
  return record;
}

RunRecord networks_record() {
  RunRecord record = header();
  record.strategies = {"ddp", "replicated"};
  Dice dice;
  struct Network {
    const char* model;
    int64_t parameters, tensors, largest, multiply_adds;
    double alone_s, machine, transfer;
  };
  for (const Network& network : {Network{"resnet18", 11689512, 62, 2359296, 1814073344, 0.15, 0.97, 0.85},
                                 Network{"mlp", 2103818, 8, 1572864, 2102272, 0.006, 1.21, 0.4}}) {
    for (const char* strategy : {"single", "ddp", "replicated", "independent"}) {
      for (const int ranks : {1, 2}) {
        const bool communicates = strategy[0] == 'd' || strategy[0] == 'r';
        if (!communicates && ranks != (strategy[0] == 's' ? 1 : 2)) continue;
        const double machine = ranks > 1 ? network.machine : 1;
        const double transfer =
            ranks > 1 && communicates ? network.transfer + (strategy[0] == 'r' ? 0.05 : 0) : 1;
        Run run = base_run(strategy, ranks);
        run.model = network.model;
        run.parameters = network.parameters;
        run.parameter_tensors = network.tensors;
        run.largest_parameter = network.largest;
        run.multiply_adds = network.multiply_adds;
        run.batch_per_rank = 8;
        const double step_s = network.alone_s / (machine * transfer);
        fill_steps(run, step_s, 60, dice);
        fill_breakdown(run, step_s, ranks > 1 ? 0.02 : 0, 1 - transfer);
        if (communicates) run.factors = results::EfficiencyFactors{machine, 0.99, transfer, 0.98};
        fill_memory(run, 0.4 + 0.1 * network.alone_s);
        run.launch_steps = {12, 12, 12, 12, 12};
        run.launch_warmup_steps = {2, 1, 1, 1, 1};
        for (int launch = 0; launch < 5; ++launch) {
          run.warnings.push_back(
              {"Other programs used " + std::to_string(10 + launch) + " % of the processors while it ran.",
               "End them, and measure again.", false});
        }
        record.runs.push_back(run);
      }
    }
  }
  record.launches_started_at.assign(5, record.started_at);
  record.warnings.push_back(
      {"The load average was 1.8 before the run.", "Stop what else runs, or use --repeat.", false});
  record.warnings.push_back({"A quota leaves this job 1.5 processors.", "Use whole cores.", false});
  results::assign_baselines(record);
  return record;
}

RunRecord bucket_record() {
  RunRecord record = header();
  record.strategies = {"ddp", "replicated", "horovod", "bsp", "sharded", "parameter_server"};
  Dice dice;
  const auto add = [&](const std::string& strategy, int ranks, double bucket_mb, double step_s) {
    Run run = base_run(strategy, ranks);
    run.bucket_mb = bucket_mb;
    fill_steps(run, step_s, 40, dice);
    fill_breakdown(run, step_s, ranks > 1 ? 0.04 : 0, ranks > 1 ? 0.05 : 0);
    fill_memory(run, 1);
    record.runs.push_back(run);
  };
  add("single", 1, 0.1, 0.2);
  for (const char* strategy : {"ddp", "replicated"}) {
    for (const double bucket_mb : {0.1, 1.0, 5.0, 25.0})
      add(strategy, 2, bucket_mb, 0.22 + 0.002 / bucket_mb);
  }
  for (const char* strategy : {"horovod", "bsp", "sharded", "parameter_server"}) add(strategy, 2, 0.1, 0.25);
  add("independent", 2, 0.1, 0.21);
  results::assign_baselines(record);
  return record;
}

RunRecord training_record() {
  RunRecord record;
  record.training = results::TrainingRecord{.settings = {{"network", "lenet5"}}};
  for (int epoch = 1; epoch <= 3; ++epoch) {
    record.training->epochs.push_back({.epoch = epoch,
                                       .steps = 50 * epoch,
                                       .learning_rate = 0.1,
                                       .loss = 2.5 / epoch,
                                       .training_accuracy = 0.25 * epoch,
                                       .evaluation_loss = 2.4 / epoch,
                                       .evaluation_accuracy = 0.2 * epoch,
                                       .images_per_s = 1000});
  }
  return record;
}

std::vector<results::Forecast> sample_forecast(const RunRecord& record) {
  const auto of_ddp = [](const Run& run) { return run.strategy == "ddp"; };
  const Run& last = *std::find_if(record.runs.rbegin(), record.runs.rend(), of_ddp);
  const double speedup = last.speedup.value();
  return {{last.ranks, speedup, speedup, speedup},
          {2 * last.ranks, 1.8 * speedup, 1.7 * speedup, 1.85 * speedup},
          {4 * last.ranks, 3.1 * speedup, 2.6 * speedup, 3.4 * speedup},
          {8 * last.ranks, 5 * speedup, 3.6 * speedup, 6.1 * speedup}};
}

RunRecord huge_record(int ranks) {
  RunRecord record = header();
  record.ranks = ranks;
  Dice dice;
  Run run = base_run("ddp", ranks);
  fill_steps(run, 0.1, 40, dice);
  fill_breakdown(run, 0.1, 0.1, 0.1);
  fill_memory(run, 30);
  run.breakdown->straggler = ranks / 3;
  record.runs.push_back(run);
  record.rank_cpus.clear();
  for (int i = 0; i < ranks; ++i) record.rank_cpus.push_back(std::to_string(i % 64));
  return record;
}

RunRecord broken_record() {
  RunRecord record = header();
  record.machines[0].host = kHostileText;
  record.command.push_back(kHostileText);
  record.warnings.push_back({kHostileText, kHostileText, true});
  record.strategies.clear();
  Dice dice;
  Run good = base_run("ddp", 2);
  good.model = std::string(300, 'm') + kHostileText;
  fill_steps(good, 0.1, 30, dice);
  good.images_per_s = kInf;
  good.step_interval_s = results::Interval{0, 0, "not enough data"};
  record.runs.push_back(good);

  Run numbers = base_run("ddp", 4);
  numbers.images_per_s = kNaN;
  numbers.speedup = kInf;
  numbers.efficiency = kNaN;
  numbers.loss_first = kNaN;
  numbers.samples = {{kNaN, 0.1}, {kInf, kNaN}, {-1, 0.2}, {0.1, 0.1}};
  numbers.warmup_samples = {{}, {}};
  numbers.step_s.p50 = kNaN;
  numbers.step_interval_s = results::Interval{kNaN, kInf, ""};
  numbers.factors = results::EfficiencyFactors{kNaN, kInf, 0, -1};
  fill_breakdown(numbers, 0.1, 0.05, 0.05);
  numbers.breakdown->mean.forward_s = kNaN;
  numbers.breakdown->mean.other_s = -0.01;
  numbers.breakdown->communication_s = kNaN;
  numbers.breakdown->straggler = 99;
  numbers.breakdown->ranks[0].buckets[0].ended_s = kInf;
  numbers.breakdown->ranks[1].buckets[1].started_s = -5;
  numbers.resources = results::Resources{.peak_memory_bytes = {-1, 0},
                                         .processor_utilisation = kNaN,
                                         .communication_threads = kNaN,
                                         .other_load = kInf,
                                         .mean_frequency_mhz = kNaN};
  record.runs.push_back(numbers);

  Run bare;
  record.runs.push_back(bare);
  Run empty_steps = base_run("ddp", 3);
  empty_steps.samples = {{}, {}};
  empty_steps.breakdown = results::Breakdown();
  empty_steps.resources = results::Resources();
  record.runs.push_back(empty_steps);
  Run one_step = base_run("async_ps", 1);
  one_step.strategy = kHostileText;
  one_step.samples = {{0.25}};
  one_step.images_per_s = 128;
  record.runs.push_back(one_step);
  return record;
}

}  // namespace lockstep::plots
