#pragma once

#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// Throws ConfigError, with the nearest name, unless the name is cpu or cuda.
void check_device(const std::string& name);

/// The kernels of a row that asks for `auto`, or for none: on a processor kernels::kAuto, where there is a
/// choice.
std::string default_kernels(const std::string& device);

/// Checks the flags before rows are made of them. Throws ConfigError for names and combinations that cannot
/// be measured, or BackendMissing for kernels that this build lacks.
void check_sweep(const SweepOptions& sweep);

/// Throws ConfigError where flags mean nothing for the rows that were made of them.
void check_planned(const SweepOptions& sweep, const std::vector<RowPlan>& rows);

/// Why the row's strategy or network cannot run on GPUs in that way, or not in recorded steps, with advice;
/// empty where it can, and for rows on a CPU.
std::optional<ConfigError> why_not_on_device(const RowPlan& row, strategies::GpuUse use);

/// Whether the row's network draws from LibTorch's generators: one of a file or plugin that has dropout.
bool draws_random_numbers(const RowPlan& row);

/// Whether `row` is trained on a GPU.
inline bool on_gpu(const RowPlan& row) {
  return row.device == kCuda;
}

}  // namespace lockstep::train
