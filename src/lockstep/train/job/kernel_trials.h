#pragma once

#include <vector>

#include "lockstep/results/record/kernel_trial.h"
#include "lockstep/train/job/run_job.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// Gives rows that leave their kernels to a trial (kernels::kAuto) the faster ones for their network, batch
/// and precision, the same in all of its rows. Every rank trains a network of its own for some steps with
/// either choice in turn, without communication, and frees it; the slowest rank's times decide. Takes about
/// 3 s for a network, or one step of four images with either choice where these take longer, and another one
/// where the first does not show that fused ones are faster. A choice among
/// `earlier` ones, of rank 0, holds without a trial. Returns the choices that were made or held. Collective
/// over the ranks of `job`, alone where `rank` is null. Throws what RowTrainee throws.
std::vector<results::KernelTrial> choose_kernels(JobPlan& job, const JobRank* rank,
                                                 std::vector<results::KernelTrial> earlier = {});

/// The choice by these times. Where they are as good as equal it is `fused`, so that one trial chooses as
/// another does.
const char* faster_kernels(double fused_s, double aten_s);

}  // namespace lockstep::train
