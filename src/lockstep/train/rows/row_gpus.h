#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/topology/gpu_watch.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// Watches the GPUs that a rank has in a row, from construction to finish(); on a CPU it does nothing.
class RowGpuWatch {
 public:
  explicit RowGpuWatch(const RowPlan& row);

  /// Use of each GPU during these steps, the last before now. Empty on a CPU.
  std::vector<topology::GpuUse> finish(std::span<const double> step_s);

 private:
  /// Null where a GPU cannot be asked.
  std::vector<std::unique_ptr<topology::GpuWatch>> watches_;
};

/// How LibTorch is set to compute on GPUs now, as far as it changes speed or values: "fp32 matrix products in
/// ieee, convolutions in tf32, cuDNN autotuned". For a row on a CPU empty.
std::string device_settings(const RowPlan& row);

}  // namespace lockstep::train
