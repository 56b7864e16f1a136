#pragma once

#include <vector>

#include "lockstep/results/run_record.h"

namespace lockstep::results {

/// What is going to run on one host.
struct HostPlan {
  int ranks = 1;
  int threads_per_rank = 1;
};

/// What about this machine, or about that plan on it, makes the numbers less trustworthy: other load, more
/// threads than cores, a CPU quota, swap in use, a power-saving governor; each with what to do.
std::vector<Warning> machine_warnings(const Machine& machine, const HostPlan& plan);

}  // namespace lockstep::results
