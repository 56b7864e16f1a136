#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// Findings on the GPUs of a row, indexed by rank, that make it less trustworthy: throttled clocks, or clocks
/// that differ between the GPUs.
std::vector<Warning> gpu_warnings(const std::vector<topology::GpuUse>& by_rank);

/// A warning if ranks share a GPU, on which they take turns.
std::vector<Warning> shared_gpu_warnings(const std::vector<topology::RankGpu>& by_rank);

}  // namespace lockstep::results
