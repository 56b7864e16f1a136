#pragma once

#include <optional>

#include "lockstep/launch/progress.h"
#include "lockstep/results/record/replica_state.h"
#include "lockstep/train/rows/bucket_search.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// How much a search measures.
struct TuningPlan {
  int blocks = 0;
  /// Timed steps of a block.
  int steps = 0;
  /// The smallest cap that is tried, in MiB.
  double least_mb = 0.5;
};

/// As many blocks, of as many steps, as take `budget_s` where building a row takes `setup_s` and a step
/// `step_s`: blocks as long as leave enough of them, then as many as there is time for.
TuningPlan plan_tuning(double budget_s, double setup_s, double step_s);

/// Whether a row has a cap to search for: its strategy has buckets, and other ranks to send them to.
bool has_cap_to_tune(const RowPlan& row);

/// Finds the cap of a bucket for a row within RowPlan::tune_budget_s: trains blocks of steps with one cap
/// after the other, each from a row built anew. Rank 0 decides what is measured and what is best. `plan`: in
/// place of the one that follows from a first block. Collective over `ranks`, of two or more. The chosen cap
/// is on all of them, the rest on rank 0.
results::BucketTuning tune_buckets(const RowPlan& row, const RankGroup& ranks, launch::Progress& progress,
                                   const std::optional<TuningPlan>& plan = std::nullopt);

}  // namespace lockstep::train
