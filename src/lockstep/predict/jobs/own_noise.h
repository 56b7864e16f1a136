#pragma once

#include "lockstep/predict/jobs/stragglers.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::predict {

/// Variation of a rank's computing (a step without waiting and transfer) in the breakdown of `run`, as shares
/// of its median. What ranks that share a host have in common, by the correlation of their steps, is the
/// host's part; ranks on several hosts have own parts only, because what all hosts have in common delays no
/// rank behind another. One rank: the steps of `single`, all of it the rank's own.
StepNoise own_noise(const results::RunRecord& record, const results::Run& run);

}  // namespace lockstep::predict
