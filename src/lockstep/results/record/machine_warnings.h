#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// The ranks that are about to run on one host.
struct HostPlan {
  int ranks = 1;
  int threads_per_rank = 1;
};

/// Properties of the machine, or of the plan on it, that make the numbers less trustworthy: other load, more
/// threads than cores, a CPU quota, swap in use, a power-saving governor. The
/// machine's cores are those that all of its ranks may use together (topology::unite_masks).
std::vector<Warning> machine_warnings(const Machine& machine, const HostPlan& plan);

/// Findings on the GPUs of a row, indexed by rank, that make it less trustworthy: throttled clocks, or clocks
/// that differ between the GPUs.
std::vector<Warning> gpu_warnings(const std::vector<topology::GpuUse>& by_rank);

/// A warning if ranks share a GPU, on which they take turns.
std::vector<Warning> shared_gpu_warnings(const std::vector<topology::RankGpu>& by_rank);

/// In a job on hosts with GPUs, a warning for every host that differs from most of them in its GPUs, their
/// driver, its network devices or the paths between all these. Each names the host, the difference, and the
/// value on the others.
std::vector<Warning> host_differences(const std::vector<Machine>& machines);

}  // namespace lockstep::results
