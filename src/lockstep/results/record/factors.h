#pragma once

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// Sets `factors` of every coupled run that has a baseline, a breakdown and (with 2 ranks or more) an
/// `independent` run beside it: docs/measuring.md, "Scaling", has the formulas. Their product is the run's
/// efficiency. Call after assign_baselines; again after runs were added.
void assign_factors(RunRecord& record);

}  // namespace lockstep::results
