#pragma once

#include <vector>

#include <c10/core/Device.h>

#include "lockstep/measure/phases.h"

namespace lockstep::train {

/// Records what one device carries out, as LibTorch's profiler is told by the device's own (CUPTI on NVIDIA's
/// GPUs); on the CPU LibTorch's operations take the kernels' place. Recording makes launches slower, so not
/// for a run whose times count. One at a time in a process; used by the training thread.
class KernelRecorder {
 public:
  /// Records from now on. Throws Error where LibTorch cannot.
  explicit KernelRecorder(c10::Device device);
  /// Ends without a result where finish was not called.
  ~KernelRecorder();
  KernelRecorder(const KernelRecorder&) = delete;
  KernelRecorder& operator=(const KernelRecorder&) = delete;

  /// Ends it, once the device has done all that it was given: what began since, in the order of beginning.
  std::vector<measure::KernelSpan> finish();

 private:
  c10::Device device_;
  bool recording_ = true;
};

}  // namespace lockstep::train
