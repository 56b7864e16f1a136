#pragma once

#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/strategies/gpu_support.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// Throws ConfigError, with what was meant, unless the name is cpu or cuda.
void check_device(const std::string& name);

/// The kernels of a row that does not say which.
std::string default_kernels(const std::string& device);

/// Checks what the flags say before rows are made of them. Throws ConfigError for every name and number that
/// cannot be measured, or BackendMissing for kernels that this build lacks.
void check_sweep(const SweepOptions& sweep);

/// Throws ConfigError where flags mean nothing for the rows that were made of them.
void check_planned(const SweepOptions& sweep, const std::vector<RowPlan>& rows);

/// Why the row's strategy cannot be had on GPUs in that way, or not in steps that are recorded, and what the
/// user can do; nothing where it can, and for rows on a CPU.
std::optional<ConfigError> why_not_on_device(const RowPlan& row, strategies::GpuUse use);

/// Whether `row` is trained on a GPU.
inline bool on_gpu(const RowPlan& row) {
  return row.device == kCuda;
}

}  // namespace lockstep::train
