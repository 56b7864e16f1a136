#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// Where the hosts of a job have GPUs: a warning for every host that differs from most of them in its GPUs,
/// their driver, its network devices or the paths between all these. Each names the host, what differs, and
/// what the others have.
std::vector<Warning> host_differences(const std::vector<Machine>& machines);

}  // namespace lockstep::results
