#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// What is going to run on one host.
struct HostPlan {
  int ranks = 1;
  int threads_per_rank = 1;
  /// Cores that these ranks may use together, where a launcher gave each rank a mask of its own, so that
  /// Machine::cores tells of one rank only; 0: Machine::cores.
  int cores = 0;
};

/// What about this machine, or about that plan on it, makes the numbers less trustworthy: other load, more
/// threads than cores, a CPU quota, swap in use, a power-saving governor; each with what to do.
std::vector<Warning> machine_warnings(const Machine& machine, const HostPlan& plan);

}  // namespace lockstep::results
