#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"
#include "lockstep/topology/use.h"

namespace lockstep::results {

/// What a row used, from what each of its ranks saw; the cores that its ranks had are ranks *
/// threads_per_rank of them.
Resources resources_of(const std::vector<topology::RankUse>& use, int threads_per_rank);

/// What happened on the hosts while a row ran that makes it less trustworthy: other load, time taken by the
/// hypervisor, swapping, a clock frequency that fell.
std::vector<Warning> resource_warnings(const std::vector<topology::RankUse>& use);

/// What the run's own step times say against it: a trend, a level shift, many outliers, warm-up that was not
/// over. Empty for a run without samples.
std::vector<Warning> series_warnings(const Run& run);

}  // namespace lockstep::results
