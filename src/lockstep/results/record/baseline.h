#pragma once

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

}  // namespace lockstep::results
