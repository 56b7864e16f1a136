#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lockstep/launch/progress.h"
#include "lockstep/results/record/replica_state.h"
#include "lockstep/train/rows/rank_group.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

struct BucketSearchOptions {
  double least_mb = 0.5;
  double most_mb = 128;
  /// The cap that the winner is compared with in the end, and that stays if nothing is better.
  double default_mb = 25;
  /// MiB of gradients: any cap that holds all of them makes the same buckets.
  double payload_mb = 0;
  /// Most blocks of steps to measure.
  int blocks = 40;
};

/// Measures a block of steps with buckets of up to `bucket_mb` MiB; returns the time of each step, of one at
/// least.
using MeasureBlock = std::function<std::vector<double>(double bucket_mb)>;

/// Finds the cap of a bucket with the shortest steps, by measuring blocks of steps in turn.
///
/// 1. A geometric grid of caps (0.5, 2, 8, 25, 128 MiB), a block each; the faster half again in reverse
/// order,
///    so that a drift of the machine favors none.
/// 2. The caps half-way (geometrically) to the neighbors of the fastest, in turn with it; twice.
/// 3. The fastest of these against the default, in new pairs of blocks in turn: the fastest of many is partly
///    luck, so the blocks that it was chosen by do not count. A t interval on the logarithms of the pairs'
///    ratios says whether they can be told apart; where they cannot, the default stays.
///
/// With too few blocks for all of it, refinement is cut first, then the grid; never the pairs. The budget of
/// the result is the caller's to fill in.
results::BucketTuning search_buckets(const BucketSearchOptions& options, const MeasureBlock& measure);

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
