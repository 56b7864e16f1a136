#include "lockstep/train/rows/row_runner.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "lockstep/train/rows/gather.h"
#include "lockstep/train/rows/own_measures.h"
#include "lockstep/train/rows/row_gpus.h"
#include "lockstep/train/rows/row_trainee.h"
#include "lockstep/train/step/clock_sync.h"
#include "lockstep/train/step/kernel_recorder.h"

namespace lockstep::train {
namespace {

/// Steps of a breakdown run. It reports means only; 20 steps are enough for those.
constexpr int kBreakdownWarmup = 5;
constexpr int kBreakdownSteps = 20;
/// Steps of a trace with kernels. A step has about a thousand of them.
constexpr int kTracedSteps = 3;

/// A rank's report on its part in a row.
struct RankReport {
  std::vector<double> warmup_s;
  std::vector<double> step_s;
  double loss_first = 0;
  double loss_last = 0;
  topology::RankUse use;
  std::vector<topology::GpuUse> gpus;
  replica::MemoryUse memory;
  std::vector<feed::QueueUse> queues;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& report) {
    fields("warmup_s", report.warmup_s);
    fields("step_s", report.step_s);
    fields("loss_first", report.loss_first);
    fields("loss_last", report.loss_last);
    fields("use", report.use);
    fields("gpus", report.gpus);
    fields("memory", report.memory);
    fields("queues", report.queues);
  }
};

/// Puts the reports of all ranks into the samples of the row.
void add_reports(std::vector<RankReport> reports, RowSamples& samples) {
  const auto ranks = static_cast<double>(reports.size());
  for (RankReport& report : reports) {
    samples.warmup_s.push_back(std::move(report.warmup_s));
    samples.step_s.push_back(std::move(report.step_s));
    samples.loss_first += report.loss_first / ranks;
    samples.loss_last += report.loss_last / ranks;
    samples.use.push_back(report.use);
    std::ranges::move(report.gpus, std::back_inserter(samples.gpus));
    samples.memory.push_back(report.memory);
    samples.input_queues.push_back(std::move(report.queues));
  }
}

c10::Device device_of(const RowTrainee& trainee) {
  return trainee.accelerator() ? trainee.accelerator()->device() : c10::Device(c10::DeviceType::CPU);
}

/// Leaves out what was carried out before the first of these steps or after the last, in warm-up mostly.
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

std::optional<RowSamples> run_row(const RowPlan& row, const RankGroup& ranks, launch::Progress& progress) {
  comm::Communicator* group = ranks.control;
  RowTrainee trainee(row, ranks);
  const topology::UseWatch watch;
  RowGpuWatch gpu_watch(row);
  const double communication_cpu_s = ranks.data == nullptr ? 0 : ranks.data->progress_thread_cpu_s();
  trainee.reset_peak_memory();
  StepLoopResult own = trainee.train(row.pacing, trainee.coupled(), false, progress);
  topology::RankUse use = watch.finish();
  const std::vector<int64_t> peaks = trainee.peak_memory_bytes();
  if (!peaks.empty()) use.peak_device_memory_bytes = peaks.front();
  std::vector<topology::GpuUse> gpus = gpu_watch.finish(own.step_s);
  if (ranks.data != nullptr) {
    use.communication_cpu_s = ranks.data->progress_thread_cpu_s() - communication_cpu_s;
  }
  const size_t steps = own.warmup_s.size() + own.step_s.size();
  RowSamples samples{.warmup_choice = std::move(own.warmup_choice),
                     .stopped = std::move(own.stopped),
                     .replica_checks = own.checks,
                     .why_not_compared = trainee.why_not_compared(),
                     .device_settings = device_settings(row),
                     .measured = combine_measured(trainee.measured(), steps, group)};
  add_reports(gather_records(RankReport{.warmup_s = std::move(own.warmup_s),
                                        .step_s = std::move(own.step_s),
                                        .loss_first = own.loss_first,
                                        .loss_last = own.loss_last,
                                        .use = use,
                                        .gpus = std::move(gpus),
                                        .memory = trainee.memory(),
                                        .queues = trainee.input_queues()},
                             group),
              samples);
  if (!trainee.coupled()) {
    for (const std::vector<double>& rank : samples.warmup_s) {
      samples.start_s.push_back(std::accumulate(rank.begin(), rank.end(), 0.0));
    }
  }
  if (group != nullptr && group->rank() != 0) return std::nullopt;
  // A step of one process is a step of each of its devices.
  const auto devices = static_cast<size_t>(trainee.devices());
  samples.warmup_s.resize(samples.warmup_s.size() * devices, samples.warmup_s.front());
  samples.step_s.resize(samples.step_s.size() * devices, samples.step_s.front());
  samples.use.resize(samples.use.size() * devices, samples.use.front());
  // The memory of each is its own.
  for (size_t device = 1; device < peaks.size(); ++device) {
    samples.use[device].peak_device_memory_bytes = peaks[device];
  }
  return samples;
}

std::vector<measure::RankStamps> break_down_row(const RowPlan& row, const RankGroup& ranks,
                                                launch::Progress& progress) {
  return stamp_row(row, ranks,
                   {.warmup_steps = row.pacing.warmup_steps.value_or(kBreakdownWarmup),
                    .steps = std::min(row.pacing.steps.value_or(kBreakdownSteps), kBreakdownSteps)},
                   /*kernels=*/false, progress);
}

std::vector<measure::RankStamps> trace_kernels(const RowPlan& row, const RankGroup& ranks,
                                               launch::Progress& progress) {
  return stamp_row(row, ranks, {.warmup_steps = kBreakdownWarmup, .steps = kTracedSteps}, /*kernels=*/true,
                   progress);
}

}  // namespace lockstep::train
