#pragma once

#include <string>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// A run that says what it is and has found nothing yet.
Run plain_run(const std::string& strategy, int ranks);

/// The same with `steps` steps of about `step_s` seconds, the same ones every time, summarized.
Run measured_run(const std::string& strategy, int ranks, int steps, double step_s);

/// A breakdown of `ranks` ranks that are all alike, three buckets each; forward and backward share what is
/// left of the step.
Breakdown breakdown_of(int ranks, double step_s, double waiting_s, double transfer_s);

/// Use of a GPU that was kept down now and then; all is set.
topology::GpuUse throttled_gpu();

/// GPUs of a record's ranks, on one host.
std::vector<topology::RankGpu> rank_gpus(int ranks);

/// A sweep on GPUs: ddp at 1 and 2 ranks, with both controls.
RunRecord gpu_record();

/// A record without runs in which every field is set, so that one that is lost on the way is noticed.
RunRecord described_record();

/// Two networks, ddp at 1, 2 and 4 ranks with both controls; the second network too fast and too short for
/// all digits and percentiles.
RunRecord sweep_record();

/// Few steps, everything set: for whole files.
RunRecord small_record();

}  // namespace lockstep::results
