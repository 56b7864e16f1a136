#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// What the GPUs of a row did, [rank], that makes it less trustworthy: clocks that were kept down, or that
/// were not the same on all of them.
std::vector<Warning> gpu_warnings(const std::vector<topology::GpuUse>& by_rank);

/// That ranks have a GPU in common, if some do: they take turns on it.
std::vector<Warning> shared_gpu_warnings(const std::vector<topology::RankGpu>& by_rank);

}  // namespace lockstep::results
