#pragma once

#include <vector>

#include "lockstep/predict/jobs/collective_table.h"
#include "lockstep/predict/jobs/strategy_shape.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::predict {

/// Buckets of a breakdown as means over the ranks.
std::vector<results::BucketTimes> mean_buckets(const results::Run& run);

/// The kind of collective `index` of `count` in the breakdown of a run.
CollectiveKind bucket_kind(const results::Run& run, const StrategyShape& shape, size_t index, size_t count);

/// Processor time of a rank's communication over its time, at most 1: little where a link is slower than the
/// cores that move the bytes. 1 where it is not known.
double core_share_of(const results::Run& run);

/// Costs of a run's own collectives.
struct OwnCosts {
  /// By kind and size: the time by which each, in one queue, was later than its ready time and the end of
  /// those before (the recurrence of overlap() solved for the costs); those that ran at the same time, in
  /// lanes, share it by their bytes. Equal sizes share their mean.
  std::vector<CollectivePoint> points;
  /// phi_n, and how late a round begins while the rank computes, where `points` leave them out.
  double network_loss = 0, turn_s = 0;
  /// Time of a step in which ranks compute and collectives that are late have not begun.
  double late_s = 0;
};

/// Where no size is small enough to tell latency, costs are put onto a line through the assumed latency that
/// keeps their sum: one that ranks delayed because they computed would make smaller ones look dear. Where the
/// ranks fill the cores (`fills_cores`), which move the bytes as well, the times are those of the most
/// probable link, phi_n and turn of the processor (docs/predicting.md).
OwnCosts own_costs(const results::Run& run, const StrategyShape& shape, bool fills_cores);

}  // namespace lockstep::predict
