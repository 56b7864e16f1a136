#pragma once

#include "lockstep/train/job/run_job.h"

#include "bench_plan.h"
#include "live_record.h"

namespace lockstep::cli {

/// The work of one rank: measures its rows; rank 0 also keeps them in `live`, and prints and writes the
/// results. Collective over the job.
void measure_rows(const BenchPlan& plan, const train::JobRank& rank, LiveRecord& live);

}  // namespace lockstep::cli
