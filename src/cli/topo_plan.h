#pragma once

#include <functional>

#include "lockstep/links/measure.h"
#include "lockstep/links/record.h"
#include "lockstep/train/job/job_plan.h"
#include "lockstep/train/job/run_job.h"

namespace lockstep::cli {

/// The plan of `topo --measure`, the same on all ranks.
struct TopoPlan {
  train::JobPlan job;
  links::Pacing pacing;

  /// Seconds that all rounds take.
  double estimate_s() const { return job.ranks * (job.ranks - 1) / 2 * pacing.pair_s; }
};

/// The work of one rank. `keep` is called on rank 0 with what was measured so far. Collective over the job.
void measure_links(const TopoPlan& plan, const train::JobRank& rank,
                   const std::function<void(const links::Record&)>& keep);

}  // namespace lockstep::cli
