#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// The ranks that are about to run on one host.
struct HostPlan {
  int ranks = 1;
  int threads_per_rank = 1;
  /// Cores that these ranks may use together, where a launcher gave each rank a mask of its own, so that
  /// Machine::cores tells of one rank only; 0: Machine::cores.
  int cores = 0;
};

/// Properties of the machine, or of the plan on it, that make the numbers less trustworthy: other load, more
/// threads than cores, a CPU quota, swap in use, a power-saving governor. Each warning says what to do.
std::vector<Warning> machine_warnings(const Machine& machine, const HostPlan& plan);

}  // namespace lockstep::results
