#include "lockstep/train/rows/row_runner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <ATen/Context.h>

#include "lockstep/topology/gpu_watch.h"
#include "lockstep/train/rows/gather.h"
#include "lockstep/train/rows/row_estimate.h"
#include "lockstep/train/rows/row_rules.h"
#include "lockstep/train/rows/row_trainee.h"
#include "lockstep/train/step/clock_sync.h"
#include "lockstep/train/step/kernel_recorder.h"

namespace lockstep::train {
namespace {

/// Steps of a breakdown run. It reports means only, for which 20 steps are enough.
constexpr int kBreakdownWarmup = 5;
constexpr int kBreakdownSteps = 20;
/// Steps of a trace with kernels. A step has about a thousand of them.
constexpr int kTracedSteps = 3;

/// The number of the GPUs that the process of one rank trains with.
int gpus_of(const RowPlan& row) {
  if (!on_gpu(row)) return 0;
  return traits_of(row).one_process ? row.ranks : 1;
}

/// Watches the GPUs that a rank has in a row, from construction to finish(); on a CPU it does nothing.
class RowGpuWatch {
 public:
  explicit RowGpuWatch(const RowPlan& row) {
    for (int gpu = 0; gpu < gpus_of(row); ++gpu) {
      topology::GpuWatch::Sampler sampler = topology::gpu_sampler(row.device_index + gpu);
      watches_.push_back(sampler ? std::make_unique<topology::GpuWatch>(std::move(sampler)) : nullptr);
    }
  }

  /// Use of each GPU during these steps, the last before now. Empty on a CPU.
  std::vector<topology::GpuUse> finish(std::span<const double> step_s) {
    const double duration_s = std::accumulate(step_s.begin(), step_s.end(), 0.0);
    std::vector<topology::GpuUse> all;
    for (const auto& watch : watches_) {
      all.push_back(watch ? watch->finish(duration_s) : topology::GpuUse());
    }
    return all;
  }

 private:
  /// Null for a GPU without a sampler.
  std::vector<std::unique_ptr<topology::GpuWatch>> watches_;
};

/// The precision in which LibTorch multiplies fp32 tensors.
std::string precision_of(at::Float32Op op) {
  const at::Float32Precision precision = at::globalContext().float32Precision(at::Float32Backend::CUDA, op);
  return precision == at::Float32Precision::NONE ? "ieee" : at::precision2str(precision);
}

c10::Device device_of(const RowTrainee& trainee) {
  return trainee.accelerator() ? trainee.accelerator()->device() : c10::Device(c10::DeviceType::CPU);
}

/// Leaves out kernels before the first of these steps or after the last, in warm-up mostly.
void keep_within(const std::vector<measure::StepStamps>& steps, std::vector<measure::KernelSpan>& spans) {
  std::erase_if(spans, [&](const measure::KernelSpan& span) {
    return steps.empty() || span.begin_s < steps.front().begin_s || span.end_s > steps.back().end_s;
  });
}

/// `kernels`: recorded on rank 0.
std::vector<measure::RankStamps> stamp_row(const RowPlan& row, const RankGroup& ranks,
                                           const PacingOptions& pacing, bool kernels,
                                           launch::Progress& progress) {
  comm::Communicator* group = ranks.control;
  std::optional<TracedCommunicator> tracer;
  ClockOffset clock;
  if (group != nullptr) {
    tracer.emplace(*ranks.data);
    clock = estimate_clock_offset(*group);
  }
  RowTrainee trainee(row, ranks, tracer ? &*tracer : nullptr);
  if (tracer) tracer->forget_stamps();
  std::optional<KernelRecorder> recorder;
  if (kernels && (group == nullptr || group->rank() == 0)) recorder.emplace(device_of(trainee));
  // Also of uncoupled ranks the same steps are wanted of each.
  const StepLoopResult own = trainee.train(pacing, /*coupled=*/true, /*stamp_phases=*/true, progress);
  std::vector<measure::KernelSpan> spans;
  if (recorder) {
    spans = recorder->finish();
    keep_within(own.stamps, spans);
  }

  std::vector<measure::RankStamps> by_rank = gather_records(
      measure::RankStamps{
          .steps = own.stamps, .clock_offset_s = clock.offset_s, .clock_error_s = clock.error_s},
      group);
  if (group != nullptr && group->rank() != 0) return {};
  by_rank.resize(by_rank.size() * static_cast<size_t>(trainee.devices()), by_rank.front());
  by_rank.front().kernels = std::move(spans);
  return by_rank;
}

}  // namespace

PacingOptions breakdown_pacing(const RowPlan& row) {
  return {.warmup_steps = row.pacing.warmup_steps.value_or(kBreakdownWarmup),
          .steps = std::min(row.pacing.steps.value_or(kBreakdownSteps), kBreakdownSteps),
          .period = row.pacing.period};
}

PacingOptions again_pacing(const RowPlan& row) {
  PacingOptions pacing = row.pacing;
  if (std::isfinite(row.pacing.time_limit_s())) pacing.max_time_s = row.pacing.time_limit_s() / 4;
  if (pacing.steps) pacing.steps = std::min(*pacing.steps, kBreakdownSteps);
  return pacing;
}

std::string device_settings(const RowPlan& row) {
  if (!on_gpu(row)) return "";
  const at::Context& context = at::globalContext();
  std::string text = fmt::format("fp32 matrix products in {}, convolutions in {}",
                                 precision_of(at::Float32Op::MATMUL), precision_of(at::Float32Op::CONV));
  if (context.benchmarkCuDNN()) text += ", cuDNN autotuned";
  if (context.deterministicCuDNN() || context.deterministicAlgorithms()) text += ", deterministic";
  return text;
}

RowResult run_row(const RowPlan& row, const RankGroup& ranks, launch::Progress& progress) {
  comm::Communicator* group = ranks.control;
  const int64_t before_bytes = topology::resident_memory_bytes();
  RowTrainee trainee(row, ranks);
  const topology::UseWatch watch;
  RowGpuWatch gpu_watch(row);
  const double communication_cpu_s = ranks.data == nullptr ? 0 : ranks.data->progress_thread_cpu_s();
  topology::RankUse use;
  StepLoopResult own =
      trainee.train(row.pacing, trainee.coupled(), false, progress, [&] { use = watch.finish(); });
  RankReport report{std::move(own), use};
  report.gpus = gpu_watch.finish(report.step_s);
  report.memory = trainee.memory();
  report.queues = trainee.input_queues();
  const std::vector<int64_t> peaks = trainee.peak_memory_bytes();
  if (!peaks.empty()) report.use.peak_device_memory_bytes = peaks.front();
  const int64_t most_bytes = peaks.empty() ? report.use.peak_memory_bytes - before_bytes : peaks.front();
  report.memory.activations =
      std::max<int64_t>(0, most_bytes - report.memory.total() - report.memory.gathered);
  if (ranks.data != nullptr) {
    report.use.communication_cpu_s = ranks.data->progress_thread_cpu_s() - communication_cpu_s;
  }
  const size_t steps =
      (report.warmup_s.size() + report.step_s.size()) * static_cast<size_t>(row.pacing.period);
  RowResult result{.row = row,
                   .ending = std::move(own.ending),
                   .replica_checks = own.checks,
                   .why_not_compared = trainee.why_not_compared(),
                   .device_settings = device_settings(row),
                   .measured = combine_measured(trainee.measured(), steps, group)};
  result.ranks = gather_records(report, group);
  if (group != nullptr && group->rank() != 0) result.ranks.clear();
  if (group == nullptr || group->rank() == 0) result.predicted_memory = predict_memory(row);
  // Ranks that are threads have one resident memory.
  const bool are_threads = result.ranks.size() > 1 &&
                           result.ranks[0].use.process == result.ranks[1].use.process &&
                           result.ranks[0].use.host == result.ranks[1].use.host;
  for (RankReport& rank : result.ranks) {
    if (are_threads && peaks.empty()) rank.memory.activations = 0;
  }
  // A step of one process is a step of each of its devices, which have memory of their own.
  if (trainee.devices() > 1) {
    report.gpus.clear();
    report.queues.clear();
  }
  for (size_t device = 1; device < static_cast<size_t>(trainee.devices()); ++device) {
    if (device < peaks.size()) report.use.peak_device_memory_bytes = peaks[device];
    result.ranks.push_back(report);
  }
  return result;
}

std::vector<measure::RankStamps> break_down_row(const RowPlan& row, const RankGroup& ranks,
                                                launch::Progress& progress) {
  return stamp_row(row, ranks, breakdown_pacing(row), /*kernels=*/false, progress);
}

std::vector<measure::RankStamps> trace_kernels(const RowPlan& row, const RankGroup& ranks,
                                               launch::Progress& progress) {
  return stamp_row(row, ranks,
                   {.warmup_steps = kBreakdownWarmup, .steps = kTracedSteps, .period = row.pacing.period},
                   /*kernels=*/true, progress);
}

}  // namespace lockstep::train
