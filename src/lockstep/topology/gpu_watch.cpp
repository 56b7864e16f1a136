#include "lockstep/topology/gpu_watch.h"

#include <chrono>
#include <memory>

#include "lockstep/base/clock.h"
#include "lockstep/topology/visible_gpus.h"

namespace lockstep::topology {
namespace {

constexpr std::chrono::milliseconds kSamplingPeriod{100};

}  // namespace

GpuWatch::GpuWatch(Sampler sample) : sample_(std::move(sample)), thread_([this] { run(); }) {}

GpuWatch::~GpuWatch() {
  stop();
}

void GpuWatch::stop() {
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GpuWatch::run() {
  std::unique_lock lock(mutex_);
  while (running_) {
    lock.unlock();
    const double asked_s = now_s();
    GpuSample sample = sample_();
    lock.lock();
    samples_.emplace_back(asked_s, std::move(sample));
    wake_.wait_for(lock, kSamplingPeriod, [this] { return !running_; });
  }
}

GpuUse GpuWatch::finish(double duration_s) {
  const double begin_s = now_s() - duration_s;
  stop();
  std::vector<GpuSample> kept;
  for (auto& [asked_s, sample] : samples_) {
    if (asked_s >= begin_s) kept.push_back(std::move(sample));
  }
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
