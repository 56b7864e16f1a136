#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// In a job on hosts with GPUs, a warning for every host that differs from most of them in its GPUs, their
/// driver, its network devices or the paths between all these. Each names the host, the difference, and the
/// value on the others.
std::vector<Warning> host_differences(const std::vector<Machine>& machines);

}  // namespace lockstep::results
