#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/topology/gpu_use.h"

namespace lockstep::topology {

/// Asks for a sample of a GPU ten times a second, from a thread of its own, from construction to finish().
/// What the driver takes for an answer, up to a few milliseconds, is not the training thread's.
class GpuWatch {
 public:
  using Sampler = std::function<GpuSample()>;

  /// `sample` is called from the watch's thread only, and must not throw.
  explicit GpuWatch(Sampler sample);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  /// Ends the watch: what was sampled in the last `duration_s` seconds, at least the last sample.
  GpuUse finish(double duration_s);

 private:
  void run();
  void stop();

  const Sampler sample_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool running_ = true;
  /// With the time at which each was asked for.
  std::vector<std::pair<double, GpuSample>> samples_;
  std::thread thread_;
};

/// What samples the GPU that CUDA gives this number in this process; empty where NVML cannot be asked about
/// it.
GpuWatch::Sampler gpu_sampler(int cuda_device);

}  // namespace lockstep::topology
