#include "results/sample_runs.h"

#include <string>

#include "lockstep/results/record/baseline.h"

namespace lockstep::results {

Run plain_run(const std::string& strategy, int ranks) {
  Run run;
  run.model = "resnet50";
  run.batch_per_rank = 8;
  run.ranks = ranks;
  run.strategy = strategy;
  run.backend = "gloo";
  run.precision = "fp32";
  run.kernels = "fused";
  run.memory_format = "channels_last";
  run.image_size = 224;
  run.bucket_mb = 25;
  run.threads_per_rank = 1;
  run.seed = 1;
  run.parameters = 25557032;
  run.multiply_adds = 4089184256;
  run.learning_rate = 0.01;
  run.momentum = 0.9;
  run.weight_decay = 0.0001;
  run.loss_first = 7.125;
  run.loss_last = 6.5;
  run.coupled = strategy != "independent";
  return run;
}

Run measured_run(const std::string& strategy, int ranks, int steps, double step_s) {
  Run run = plain_run(strategy, ranks);
  RowSeries series;
  for (int rank = 0; rank < ranks; ++rank) {
    series.warmup_s.push_back({1.5 * step_s, 1.25 * step_s});
    series.step_s.emplace_back();
    for (int step = 0; step < steps; ++step) {
      // Binary fractions, so that the sums are the same with any compiler.
      series.step_s.back().push_back(step_s * (1 + ((7 * step + 3 * rank) % 5) / 1024.0));
    }
  }
  summarize(run, series);
  return run;
}

Breakdown breakdown_of(int ranks, double step_s, double waiting_s, double transfer_s) {
  Breakdown breakdown;
  breakdown.steps = 10;
  const double rest_s = step_s - waiting_s - transfer_s;
  breakdown.mean = {.input_s = rest_s / 64,
                    .forward_s = rest_s / 4,
                    .backward_s = rest_s / 2,
                    .waiting_s = waiting_s,
                    .transfer_s = transfer_s,
                    .optimizer_s = rest_s / 8,
                    .other_s = rest_s * 7 / 64,
                    .step_s = step_s};
  breakdown.waiting_half_width_s = 0.001;
  breakdown.transfer_half_width_s = 0.001;
  breakdown.communication_s = 2 * (waiting_s + transfer_s);
  breakdown.straggler = ranks - 1;
  for (int rank = 0; rank < ranks; ++rank) {
    RankBreakdown own{
        .mean = breakdown.mean, .buckets = {}, .clock_offset_s = rank * 0.5, .clock_error_s = 1e-6};
    for (int step = 0; step < 2; ++step) own.series.add(own.mean);
    for (int bucket = 0; bucket < 3; ++bucket) {
      const double ready_s = step_s * (4 + bucket) / 8;
      own.buckets.push_back({.bytes = (int64_t{1} + bucket) << 20,
                             .ready_s = ready_s,
                             .started_s = ready_s + step_s / 64,
                             .all_arrived_s = ready_s + step_s / 32,
                             .ended_s = ready_s + step_s / 16});
    }
    breakdown.ranks.push_back(std::move(own));
  }
  return breakdown;
}

topology::GpuUse throttled_gpu() {
  return {.samples = 40,
          .sm_clock_mhz = topology::Spread{1410, 1755, 1980},
          .max_sm_clock_mhz = 1980,
          .memory_clock_mhz = topology::Spread{3201, 3201, 3201},
          .temperature_c = topology::Spread{41, 62, 74.5},
          .power_w = topology::Spread{120, 690.5, 701},
          .power_limit_w = 700,
          .kernel_share = topology::Spread{0.5, 0.96875, 1},
          .memory_share = topology::Spread{0.25, 0.5, 0.625},
          .memory_used_bytes = topology::Spread{1e9, 4e10, 4e10},
          .memory_bytes = static_cast<double>(int64_t{140} << 30),
          .slowed_share = 0.375,
          .slowed_by = {{"power cap", 0.25}, {"hardware thermal slowdown", 0.125}}};
}

std::vector<topology::RankGpu> rank_gpus(int ranks) {
  std::vector<topology::RankGpu> gpus;
  for (int rank = 0; rank < ranks; ++rank) {
    gpus.push_back({.host = "node1",
                    .name = "NVIDIA H200",
                    .pci_bus_id = "0000:0" + std::to_string(6 + rank) + ":00.0",
                    .uuid = "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe0" + std::to_string(rank)});
  }
  return gpus;
}

RunRecord gpu_record() {
  RunRecord record = described_record();
  record.cuda_version = "13.0";
  record.cudnn_version = "9.15.0";
  record.rank_gpus = rank_gpus(2);
  record.kernels = {"aten"};
  record.kernel_detail = "";
  record.distributed_backend = "nccl";
  record.backend_detail = "NCCL 2.28.9";
  record.runs = {measured_run("single", 1, 24, 0.015625), measured_run("ddp", 1, 24, 0.016),
                 measured_run("ddp", 2, 24, 0.0165), measured_run("independent", 2, 24, 0.015625)};
  for (Run& run : record.runs) {
    run.device = "cuda";
    run.backend = "nccl";
    run.kernels = "aten";
    run.cuda_graph = true;
    run.device_settings = "fp32 matrix products in ieee, convolutions in tf32, cuDNN autotuned";
    topology::GpuUse calm = throttled_gpu();
    calm.sm_clock_mhz = topology::Spread{1980, 1980, 1980};
    calm.slowed_share = 0;
    calm.slowed_by.clear();
    run.gpu_use.assign(static_cast<size_t>(run.ranks), calm);
    run.resources.emplace();
    run.resources->peak_device_memory_bytes.assign(static_cast<size_t>(run.ranks), int64_t{6} << 30);
  }
  record.runs[2].gpu_use[1] = throttled_gpu();
  // As a driver that tells little.
  record.runs[1].gpu_use[0] = {};
  record.runs[1].resources->peak_device_memory_bytes.clear();
  assign_baselines(record);
  return record;
}

RunRecord described_record() {
  RunRecord record;
  record.lockstep_version = "0.1.0";
  record.torch_version = "2.11.0";
  record.backend_detail = "Gloo 0.0 (TCP)";
  record.kernels = {"aten", "fused"};
  record.kernel_detail = "oneDNN 3.2.0, avx512_core";
  record.started_at = "2030-01-02T03:04:05Z";
  record.command = {"lockstep", "bench", "--ranks", "1,2,4"};
  Machine machine;
  machine.host = "node1";
  machine.os = "Debian GNU/Linux 12 (bookworm)";
  machine.kernel = "6.1.0";
  machine.processor = "Some Processor 9000";
  machine.packages = 2;
  machine.numa_nodes = 2;
  machine.cores = 4;
  machine.host_cores = 16;
  machine.hardware_threads = 8;
  machine.host_hardware_threads = 32;
  machine.cpu_quota = 4.5;
  machine.memory_bytes = int64_t{16} << 30;
  machine.host_memory_bytes = int64_t{64} << 30;
  machine.available_memory_bytes = int64_t{12} << 30;
  machine.swap_used_bytes = 1 << 20;
  machine.load_average = 0.25;
  machine.governor = "performance";
  machine.max_frequency_mhz = 3500;
  machine.virtual_machine = true;
  machine.transparent_hugepages = "madvise";
  machine.gpus = {"NVIDIA H200"};
  using topology::PathKind;
  machine.map = {.devices = {{.kind = topology::DeviceKind::kGpu,
                              .label = "GPU0",
                              .name = "NVIDIA H200",
                              .pci_bus_id = "0000:06:00.0",
                              .memory_bytes = int64_t{140} << 30,
                              .numa_node = 0,
                              .cpu_affinity = "0-15"},
                             {.kind = topology::DeviceKind::kNic,
                              .label = "mlx5_0",
                              .name = "ib0",
                              .pci_bus_id = "0000:05:00.0",
                              .memory_bytes = 0,
                              .numa_node = 1,
                              .cpu_affinity = "16-31"}},
                 .paths = {{{PathKind::kSelf, 0}, {PathKind::kSystem, 0}},
                           {{PathKind::kSystem, 0}, {PathKind::kSelf, 0}}},
                 .driver_version = "580.65.06",
                 .cuda_version = "13.0"};
  record.machines = {machine};
  record.launch = "processes";
  record.binding = "core";
  record.ranks = 4;
  record.threads_per_rank = 1;
  record.rank_cpus = {"0", "1", "2", "3"};
  record.allocator = "glibc malloc, pages kept";
  record.warnings = {
      {"The machine was busy before the run.", "Stop other programs.", false},
      {"4 ranks of 1 thread need 4 cores, but there are 2 usable cores: ranks take turns, and the numbers "
       "say nothing "
       "about scaling.",
       "Use --ranks up to 2, or fewer --threads.", true},
  };
  record.strategies = {"ddp"};
  record.distributed_backend = "gloo";
  record.bucket_size_mb = 25;
  return record;
}

RunRecord sweep_record() {
  RunRecord record = described_record();
  record.runs = {measured_run("single", 1, 24, 0.5),       measured_run("ddp", 1, 24, 0.515625),
                 measured_run("ddp", 2, 24, 0.53125),      measured_run("ddp", 4, 24, 0.5625),
                 measured_run("independent", 2, 24, 0.51), measured_run("independent", 4, 24, 0.53)};
  for (Run run : {measured_run("single", 1, 6, 0.000125), measured_run("ddp", 2, 6, 0.00025)}) {
    run.model = "lenet5";
    run.batch_per_rank = 64;
    run.image_size = 28;
    run.images_per_s *= 8;
    record.runs.push_back(run);
  }
  assign_baselines(record);
  return record;
}

RunRecord small_record() {
  RunRecord record = described_record();
  record.runs = {measured_run("single", 1, 4, 0.5), measured_run("ddp", 2, 4, 0.53125),
                 measured_run("independent", 2, 4, 0.51)};
  Run& ddp = record.runs[1];
  ddp.warnings = {{"Something else ran.", "Look.", false}};
  ddp.warmup_choice = "2 steps, as told";
  ddp.stopped = "all 4 steps were run";
  ddp.launch_steps = {3, 1};
  ddp.launch_warmup_steps = {1, 1};
  record.launches_started_at = {record.started_at, "2030-01-02T03:14:05Z"};
  ddp.breakdown = breakdown_of(2, 0.5625, 0.03125, 0.0625);
  ddp.resources = Resources{.peak_memory_bytes = {1 << 30, 1 << 29},
                            .page_faults = {1200, 900},
                            .peak_device_memory_bytes = {int64_t{3} << 30, int64_t{2} << 30},
                            .processor_utilisation = 0.75,
                            .communication_threads = 0.0625,
                            .other_load = 0.125,
                            .mean_frequency_mhz = 3000};
  ddp.gpu_use = {throttled_gpu(), {}};
  ddp.device_settings = "fp32 matrix products in ieee, convolutions in tf32";
  record.rank_gpus = rank_gpus(2);
  record.cudnn_version = "9.15.0";
  ddp.memory = ReplicaMemory{.parameters = {102228128, 102228128},
                             .gradients = {102228128, 102228128},
                             .momenta = {51114064, 51114068},
                             .buffers = {0, 4096},
                             .total = {255570320, 255574420}};
  ddp.tuning = BucketTuning{.budget_s = 60,
                            .candidates = {{.bucket_mb = 8,
                                            .steps = 20,
                                            .blocks = 4,
                                            .step_s = 0.5,
                                            .fastest_block_s = 0.4375,
                                            .slowest_block_s = 0.5625},
                                           {.bucket_mb = 25,
                                            .steps = 10,
                                            .blocks = 2,
                                            .step_s = 0.53125,
                                            .fastest_block_s = 0.5,
                                            .slowest_block_s = 0.5625}},
                            .chosen_mb = 8,
                            .default_mb = 25,
                            .best_mb = 8,
                            .speedup = 1.0625,
                            .speedup_low = 1.03125,
                            .speedup_high = 1.09375,
                            .reason = "it is faster than 25"};
  ddp.replica_checks = ReplicaChecks{.every = 2, .checks = 3, .not_applicable = ""};
  record.runs[2].replica_checks =
      ReplicaChecks{.every = 2, .checks = 0, .not_applicable = "its replicas go their own ways"};
  for (Run& run : record.runs) run.input_options = "--prefetch 4";
  ddp.input_queues = {{.name = "made",
                       .capacity = 4,
                       .producers = 2,
                       .batches = 10,
                       .depth = 2.5,
                       .empty = 0,
                       .empty_s = 0,
                       .full = 8,
                       .full_s = 4,
                       .images_per_s = 32,
                       .gb_per_s = 0.0048,
                       .producer_s = std::nullopt},
                      {.name = "staged",
                       .capacity = 1,
                       .producers = 1,
                       .batches = 10,
                       .depth = 0.75,
                       .empty = 2,
                       .empty_s = 0.5,
                       .full = 8,
                       .full_s = 2,
                       .images_per_s = 32,
                       .gb_per_s = 0.0048,
                       .producer_s = 0.001953125}};
  ddp.own_measures = {{"negotiation_s", 0.000375, "per step"}, {"packs", 1.5, "per step"}};
  record.baseline_ranks = 1;
  assign_baselines(record);
  assign_factors(record);
  return record;
}

}  // namespace lockstep::results
