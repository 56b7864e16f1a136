#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/topology/gpu_use.h"
#include "lockstep/topology/nvml.h"

namespace lockstep::topology {

GpuUse summarize(const std::vector<GpuSample>& samples);

/// Samples a GPU ten times a second, from construction to finish(). It has a thread of its own because the
/// driver takes up to a few milliseconds to answer.
class GpuWatch {
 public:
  using Sampler = std::function<GpuSample()>;

  /// `sample` is called from the watch's thread only, and must not throw.
  explicit GpuWatch(Sampler sample);

  /// Ends the watch. Returns the use in the last `duration_s` seconds, at least the last sample.
  GpuUse finish(double duration_s);

 private:
  void run(const std::stop_token& stop);

  const Sampler sample_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  /// Samples, each with the time at which it was asked for; the thread's own until it has ended.
  std::vector<std::pair<double, GpuSample>> samples_;
  /// The last member, so that the thread ends before the members that it uses.
  std::jthread thread_;
};

/// A sampler of the GPU with this CUDA number in this process; empty if NVML does not know it.
GpuWatch::Sampler gpu_sampler(int cuda_device);

}  // namespace lockstep::topology
