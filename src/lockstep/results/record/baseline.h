#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/measure/interval.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// Sets baseline, speedup, its interval and efficiency of every run: the baseline is the run that
/// record.baseline_strategy and baseline_ranks name, of the same work (same_work); speedup = images_per_s /
/// baseline.images_per_s, efficiency = speedup / (ranks / baseline.ranks). The interval is that of the ratio
/// of two rates, from the intervals of both (measure::ratio_interval). All three stay empty where that run is
/// missing, and for an unfinished run, which no run is relative to either. Call again after runs were added.
void assign_baselines(RunRecord& record);

/// Sets the intervals of speed-ups that have none, as in older files.
void assign_speedup_intervals(RunRecord& record);

/// Whether two runs train the same network on the same batch per rank (weak scaling) or of the whole job
/// (strong scaling) with the same settings, except for the number of ranks and how they stay in step
/// (strategy, backend, bucket size).
bool same_work(const Run& a, const Run& b);

/// Whether two runs are the same row: the same work at the same ranks with the same strategy, backend and
/// bucket size. Rows without a strategy (`single`, `independent`) know neither backend nor bucket size. An
/// unfinished run is the same row as no other.
bool same_row(const Run& a, const Run& b);

/// The finished run that `run` is relative to; null where it was not measured.
const Run* baseline_of(const RunRecord& record, const Run& run);

/// The finished `independent` run of the same work at the same number of ranks, perfect scaling on this
/// machine. Null where there is none.
const Run* independent_of(const RunRecord& record, const Run& run);

/// The finished `single` run of the same work; null where there is none.
const Run* single_of(const RunRecord& record, const Run& run);

/// Whether `run` was measured only to be compared with (RunRecord::strategies).
bool is_control(const RunRecord& record, const Run& run);

/// Sets `factors` of every coupled run that has a baseline, a breakdown and (with 2 ranks or more) an
/// `independent` run beside it: docs/measuring.md, "Scaling", has the formulas. Their product is the run's
/// efficiency. A recorded run without `independent` has its machine and strategy in one factor, `machine`.
/// Call after assign_baselines; again after runs were added.
void assign_factors(RunRecord& record);

// The one place that decides which numbers cannot be true. All else prints what it says.

/// The run's images/s with its interval; empty where it has none.
std::optional<measure::Bounded> bounded_rate(const Run& run);

/// Whether a factor of the efficiency is above 110 %, beyond its interval; none can be above 100 %.
bool is_impossible_factor(double value, const std::optional<double>& half_width);

/// Why the run's factors cannot be true; empty where nothing speaks against them.
std::string doubt_of_factors(const Run& run);

/// Whether a ratio differs from 1 by more than its noise and by 5 % or more; without an interval, by 20 %.
bool differs_from_1(double ratio, const std::optional<measure::Interval>& interval);

/// Sets `again` of a baseline from the steps that it made after the last row of its network.
void assign_again(Run& baseline, std::span<const double> step_s);

/// Whether the baseline changed between its two measurements by more than their intervals.
bool drifted(const Run& baseline);

/// Sets Run::doubt of every finished run (an efficiency above 100 % of one rank alone, a rate above that of
/// `independent`, each beyond its interval or, where the baseline came out the same when it was measured
/// again, by more than 20 % and 10 %; or a baseline that drifted by 10 %). Call after baselines were
/// assigned or read.
void assign_doubts(RunRecord& record);

/// The rows that a doubt concerns, ascending: those in doubt, their baselines and controls.
std::vector<size_t> disturbed_rows(const RunRecord& record);

/// The cores that the run's ranks leave free on the host with the fewest; below 0 they take turns. Empty
/// where the record does not say.
std::optional<int> spare_cores(const RunRecord& record, const Run& run);

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

/// Samples as Run::samples has them: [step][rank].
using Samples = std::span<const std::vector<double>>;

/// The longest of the ranks' samples, per step.
std::vector<double> per_step_maxima(Samples samples);

/// The samples of one rank, of the steps that it has.
std::vector<double> steps_of_rank(Samples samples, size_t rank);

/// The step times that percentiles are over: per-step maxima (coupled or pooled), or the slowest rank's own.
std::vector<double> representative_steps(Samples samples, bool coupled);
inline std::vector<double> representative_steps(const Run& run) {
  return representative_steps(run.samples, run.coupled);
}

}  // namespace lockstep::results
