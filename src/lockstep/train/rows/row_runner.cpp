#include "lockstep/train/rows/row_runner.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "lockstep/train/step/clock_sync.h"
#include "lockstep/train/rows/gather.h"
#include "lockstep/train/step/kernel_recorder.h"
#include "lockstep/train/rows/own_measures.h"
#include "lockstep/train/rows/row_gpus.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep::train {
namespace {

/// Of a breakdown run; what it shows are means, which 20 steps give well enough.
constexpr int kBreakdownWarmup = 5;
constexpr int kBreakdownSteps = 20;
/// Of a trace with kernels, of which a step has a thousand.
constexpr int kTracedSteps = 3;

/// values[rank], on all ranks. Collective.
std::vector<std::vector<double>> gather(const std::vector<double>& values, comm::Communicator* group) {
  if (group == nullptr) return {values};
  return gather_by_rank(values, *group);
}

double mean_over_ranks(double value, comm::Communicator* group) {
  if (group == nullptr) return value;
  group->all_reduce(comm::host_buffer(&value, 1), comm::ReduceOp::kSum)->wait();
  return value / group->size();
}

std::vector<double> flatten(const topology::RankUse& use) {
  return {use.wall_s,
          use.cpu_s,
          use.communication_cpu_s,
          static_cast<double>(use.peak_memory_bytes),
          use.host_busy_s,
          use.host_stolen_s,
          use.host_hardware_threads,
          static_cast<double>(use.host_swapped_out_bytes),
          use.frequency_at_begin_mhz,
          use.frequency_at_end_mhz,
          static_cast<double>(use.process),
          static_cast<double>(use.host),
          static_cast<double>(use.peak_device_memory_bytes)};
}

topology::RankUse unflatten_use(const std::vector<double>& flat) {
  return {.wall_s = flat[0],
          .cpu_s = flat[1],
          .communication_cpu_s = flat[2],
          .peak_memory_bytes = static_cast<int64_t>(flat[3]),
          .peak_device_memory_bytes = static_cast<int64_t>(flat[12]),
          .host_busy_s = flat[4],
          .host_stolen_s = flat[5],
          .host_hardware_threads = flat[6],
          .host_swapped_out_bytes = static_cast<int64_t>(flat[7]),
          .frequency_at_begin_mhz = flat[8],
          .frequency_at_end_mhz = flat[9],
          .process = static_cast<int64_t>(flat[10]),
          .host = static_cast<int64_t>(flat[11])};
}

/// Stamps as a flat list for the communicator: per step its ten times, the number of collectives, and of
/// each bytes, begin, end and lane.
std::vector<double> flatten(const std::vector<measure::StepStamps>& steps) {
  std::vector<double> flat;
  for (const measure::StepStamps& step : steps) {
    flat.insert(flat.end(),
                {step.begin_s, step.earlier_input_s, step.earlier_forward_s, step.earlier_backward_s,
                 step.input_s, step.forward_s, step.backward_s, step.combined_s, step.applied_s, step.end_s,
                 static_cast<double>(step.collectives.size())});
    for (const CollectiveStamp& stamp : step.collectives) {
      flat.insert(flat.end(), {static_cast<double>(stamp.bytes), stamp.issued_s, stamp.ended_s,
                               static_cast<double>(stamp.lane)});
    }
  }
  return flat;
}

std::vector<measure::StepStamps> unflatten(const std::vector<double>& flat) {
  std::vector<measure::StepStamps> steps;
  for (size_t at = 0; at < flat.size();) {
    measure::StepStamps step;
    step.begin_s = flat[at];
    step.earlier_input_s = flat[at + 1];
    step.earlier_forward_s = flat[at + 2];
    step.earlier_backward_s = flat[at + 3];
    step.input_s = flat[at + 4];
    step.forward_s = flat[at + 5];
    step.backward_s = flat[at + 6];
    step.combined_s = flat[at + 7];
    step.applied_s = flat[at + 8];
    step.end_s = flat[at + 9];
    step.collectives.resize(static_cast<size_t>(flat[at + 10]));
    at += 11;
    for (CollectiveStamp& stamp : step.collectives) {
      stamp = {.bytes = static_cast<int64_t>(flat[at]),
               .issued_s = flat[at + 1],
               .ended_s = flat[at + 2],
               .lane = static_cast<int>(flat[at + 3])};
      at += 4;
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<double> flatten(const replica::MemoryUse& memory) {
  return {static_cast<double>(memory.parameters), static_cast<double>(memory.gradients),
          static_cast<double>(memory.momenta), static_cast<double>(memory.buffers)};
}

replica::MemoryUse unflatten_memory(const std::vector<double>& flat) {
  return {.parameters = static_cast<int64_t>(flat[0]),
          .gradients = static_cast<int64_t>(flat[1]),
          .momenta = static_cast<int64_t>(flat[2]),
          .buffers = static_cast<int64_t>(flat[3])};
}

/// What was counted of each queue; the rest is the same on all ranks.
std::vector<double> flatten(const std::vector<feed::QueueUse>& queues) {
  std::vector<double> flat;
  for (const feed::QueueUse& use : queues) {
    flat.insert(flat.end(), {static_cast<double>(use.batches), use.elapsed_s, static_cast<double>(use.ready),
                             static_cast<double>(use.empty), use.empty_s, static_cast<double>(use.full),
                             use.full_s, static_cast<double>(use.made), use.made_s});
  }
  return flat;
}

std::vector<feed::QueueUse> unflatten_queues(const std::vector<double>& flat,
                                             std::vector<feed::QueueUse> own) {
  size_t at = 0;
  for (feed::QueueUse& use : own) {
    use.batches = static_cast<int64_t>(flat[at]);
    use.elapsed_s = flat[at + 1];
    use.ready = static_cast<int64_t>(flat[at + 2]);
    use.empty = static_cast<int64_t>(flat[at + 3]);
    use.empty_s = flat[at + 4];
    use.full = static_cast<int64_t>(flat[at + 5]);
    use.full_s = flat[at + 6];
    use.made = static_cast<int64_t>(flat[at + 7]);
    use.made_s = flat[at + 8];
    at += 9;
  }
  return own;
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

  const std::vector<std::vector<double>> offsets_s = gather({clock.offset_s, clock.error_s}, group);
  const std::vector<std::vector<double>> stamps = gather(flatten(own.stamps), group);
  std::vector<measure::RankStamps> by_rank;
  if (group != nullptr && group->rank() != 0) return by_rank;
  for (size_t rank = 0; rank < stamps.size(); ++rank) {
    by_rank.push_back({.steps = unflatten(stamps[rank]),
                       .clock_offset_s = offsets_s[rank][0],
                       .clock_error_s = offsets_s[rank][1]});
  }
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
  const std::vector<topology::GpuUse> gpus = gpu_watch.finish(own.step_s);
  const std::vector<feed::QueueUse> queues = trainee.input_queues();
  if (ranks.data != nullptr) {
    use.communication_cpu_s = ranks.data->progress_thread_cpu_s() - communication_cpu_s;
  }
  const size_t steps = own.warmup_s.size() + own.step_s.size();
  RowSamples samples{.warmup_s = gather(own.warmup_s, group),
                     .step_s = gather(own.step_s, group),
                     .start_s = {},
                     .warmup_choice = std::move(own.warmup_choice),
                     .stopped = std::move(own.stopped),
                     .loss_first = mean_over_ranks(own.loss_first, group),
                     .loss_last = mean_over_ranks(own.loss_last, group),
                     .replica_checks = own.checks,
                     .why_not_compared = trainee.why_not_compared(),
                     .device_settings = device_settings(row),
                     .use = {},
                     .gpus = gather_gpu_use(gpus, group),
                     .memory = {},
                     .measured = combine_measured(trainee.measured(), steps, group),
                     .input_queues = {}};
  for (const std::vector<double>& rank : gather(flatten(use), group))
    samples.use.push_back(unflatten_use(rank));
  for (const std::vector<double>& rank : gather(flatten(queues), group))
    samples.input_queues.push_back(unflatten_queues(rank, queues));
  for (const std::vector<double>& rank : gather(flatten(trainee.memory()), group))
    samples.memory.push_back(unflatten_memory(rank));
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
