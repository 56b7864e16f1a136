#pragma once

#include <vector>

#include <c10/core/Device.h>

#include "lockstep/measure/phases.h"

namespace lockstep::train {

/// Records the kernels that a device runs, through LibTorch's profiler (CUPTI on NVIDIA's GPUs); on the CPU,
/// LibTorch's operations. Recording slows launches, so it is not for a run whose times count. One at a time
/// in a process; used by the training thread.
class KernelRecorder {
 public:
  /// Starts recording. Throws Error if LibTorch cannot.
  explicit KernelRecorder(c10::Device device);
  /// Stops recording, without a result, unless finish was called.
  ~KernelRecorder();
  KernelRecorder(const KernelRecorder&) = delete;
  KernelRecorder& operator=(const KernelRecorder&) = delete;

  /// Stops recording; the device must have done all its work. Returns the kernels in the order of beginning.
  std::vector<measure::KernelSpan> finish();

 private:
  c10::Device device_;
  bool recording_ = true;
};

}  // namespace lockstep::train
