#include "lockstep/topology/gpu_watch.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "lockstep/base/clock.h"
#include "lockstep/topology/device_map.h"

namespace lockstep::topology {
namespace {

constexpr std::chrono::milliseconds kSamplingPeriod{100};

template <typename Value>
std::optional<Spread> spread_of(const std::vector<GpuSample>& samples,
                                std::optional<Value> GpuSample::*member) {
  std::vector<double> values;
  for (const GpuSample& sample : samples) {
    if (sample.*member) values.push_back(static_cast<double>(*(sample.*member)));
  }
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
  return Spread{values.front(), median, values.back()};
}

/// A value that does not change while it is sampled.
template <typename Value>
std::optional<double> limit_of(const std::vector<GpuSample>& samples,
                               std::optional<Value> GpuSample::*member) {
  const std::optional<Spread> all = spread_of(samples, member);
  return all ? std::optional(all->most) : std::nullopt;
}

/// The share of samples with each reason; a sample may have several.
void add_slowdowns(GpuUse& use, const std::vector<GpuSample>& samples) {
  const auto count = static_cast<double>(samples.size());
  for (const GpuSample& sample : samples) {
    if (!sample.slowed_by.empty()) use.slowed_share += 1 / count;
    for (const std::string& by : sample.slowed_by) {
      auto known = std::ranges::find(use.slowed_by, by, &Slowdown::by);
      if (known == use.slowed_by.end()) known = use.slowed_by.insert(use.slowed_by.end(), {by, 0});
      known->share += 1 / count;
    }
  }
  std::ranges::stable_sort(use.slowed_by, std::greater<>(), &Slowdown::share);
}

}  // namespace

GpuUse summarize(const std::vector<GpuSample>& samples) {
  GpuUse use{.samples = static_cast<int>(samples.size()),
             .sm_clock_mhz = spread_of(samples, &GpuSample::sm_clock_mhz),
             .max_sm_clock_mhz = limit_of(samples, &GpuSample::max_sm_clock_mhz),
             .memory_clock_mhz = spread_of(samples, &GpuSample::memory_clock_mhz),
             .temperature_c = spread_of(samples, &GpuSample::temperature_c),
             .power_w = spread_of(samples, &GpuSample::power_w),
             .power_limit_w = limit_of(samples, &GpuSample::power_limit_w),
             .kernel_share = spread_of(samples, &GpuSample::kernel_share),
             .memory_share = spread_of(samples, &GpuSample::memory_share),
             .memory_used_bytes = spread_of(samples, &GpuSample::memory_used_bytes),
             .memory_bytes = limit_of(samples, &GpuSample::memory_bytes),
             .slowed_share = 0,
             .slowed_by = {}};
  add_slowdowns(use, samples);
  return use;
}

GpuWatch::GpuWatch(Sampler sample)
    : sample_(std::move(sample)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void GpuWatch::run(const std::stop_token& stop) {
  do {
    const double asked_s = now_s();
    samples_.emplace_back(asked_s, sample_());
    // Sleeps until the next sample or the request to stop; nothing else notifies.
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, kSamplingPeriod, [] { return false; });
  } while (!stop.stop_requested());
}

/// Samples from before the measured steps (warm-up, compilation) do not count.
GpuUse GpuWatch::finish(double duration_s) {
  const double begin_s = now_s() - duration_s;
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  std::vector<GpuSample> kept;
  for (auto& [asked_s, sample] : samples_) {
    if (asked_s >= begin_s) kept.push_back(std::move(sample));
  }
  // A row shorter than the sampling period still has the last sample.
  if (kept.empty() && !samples_.empty()) kept.push_back(std::move(samples_.back().second));
  return summarize(kept);
}

GpuWatch::Sampler gpu_sampler(int cuda_device) {
  const std::vector<VisibleGpu> gpus = visible_gpus();
  if (cuda_device < 0 || static_cast<size_t>(cuda_device) >= gpus.size()) return nullptr;
  const auto nvml = std::make_shared<const Nvml>();
  const std::optional<int> index = nvml->index_of(gpus[static_cast<size_t>(cuda_device)].pci_bus_id);
  if (!index) return nullptr;
  return [nvml, index = *index] { return nvml->sample(index); };
}

}  // namespace lockstep::topology
