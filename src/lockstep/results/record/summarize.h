#pragma once

#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// Step times of the ranks of a row: [rank][step] in seconds, each step from the end of the one before. All
/// ranks begin together; uncoupled ones may have unequal numbers of steps.
struct RowSeries {
  std::vector<std::vector<double>> warmup_s;
  std::vector<std::vector<double>> step_s;
};

/// Fills in the findings of `run` that follow from its step times: samples, warmup_samples, warmup_steps,
/// elapsed_s, step_s, images_per_s, their intervals and warnings. `run.coupled`, `batch_per_rank` and `ranks`
/// must be set. Throws Error when the series do not fit: another number of ranks than run.ranks, no measured
/// step, or coupled ranks with unequal numbers of steps. An unfinished run may have fewer ranks, and no
/// measured step.
///
/// Coupled: a step of the job takes as long as the longest of its ranks' steps; images_per_s = ranks * batch
/// * steps / elapsed_s, with a warning where elapsed_s and the sum of the per-step maxima differ by more than
/// 1 %. Uncoupled: images_per_s = the sum over ranks of each rank's rate, counted over its steps that lie
/// inside the window in which all ranks measure; step_s are those of the slowest rank (the lowest rate).
void summarize(Run& run, const RowSeries& series);

/// The longest of the ranks' samples, per step.
std::vector<double> per_step_maxima(const std::vector<std::vector<double>>& samples);

/// The run's step times that its percentiles are over: per-step maxima (coupled or pooled), or the slowest
/// rank's own.
std::vector<double> representative_steps(const Run& run);

}  // namespace lockstep::results
