#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/predict/jobs/collective_table.h"
#include "lockstep/predict/jobs/gradient_buckets.h"
#include "lockstep/predict/jobs/known_values.h"
#include "lockstep/predict/jobs/overlap.h"
#include "lockstep/predict/jobs/stragglers.h"
#include "lockstep/predict/jobs/strategy_shape.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::predict {

/// A measured step beside its number of ranks.
struct MeasuredStep {
  Placement placement;
  double step_s = 0;
  /// Mean waiting of a rank for the others, part of the step.
  double waiting_s = 0;
};

/// A step of a training under one strategy, per rank: means over the row of `measured.back()`. Seconds.
struct JobProfile {
  std::string model, strategy, options, backend, unit;
  /// All settings of the measured row.
  results::Setup setup;
  StrategyShape shape;
  int batch = 0;
  /// Images that a rank computes in a step.
  double images = 0;
  double bucket_mb = 25;
  /// Bytes of a gradient on the wire relative to fp32.
  double wire = 1;
  double parameter_bytes = 0, largest_bytes = 0;
  int tensors = 1;
  /// The measured one, and the rank that the others wait for.
  Placement placement;
  std::optional<int> straggler;
  /// Input and forward, backward, optimizer, the rest; no communication.
  double forward_s = 0, backward_s = 0, update_s = 0, other_s = 0;
  std::vector<GradientBucket> buckets;
  OverlapLoss loss;
  /// Processor time of a rank's communication over its time, at most 1 (core_share_of).
  double core_share = 1;
  /// How late each round of a collective begins while ranks compute on all cores.
  double turn_s = 0;
  StepNoise noise;
  /// Speed-up of the measured row; empty: not known, or it cannot be true.
  std::optional<double> speedup;
  /// Step of one rank without a strategy, alone on its host; that of perfect scaling, which differs where
  /// such a rank had the whole batch of a job under strong scaling.
  double alone_s = 0, ideal_s = 0;
  /// Step of such a rank by its batch, `batch` among them.
  std::vector<KnownValue> alone_by_batch;
  /// Computing by the number of ranks that share a host, relative to one alone.
  std::vector<KnownValue> sharing;
  /// Cores of a host over threads of a rank; 0: not known, or ranks compute on GPUs.
  double ranks_with_cores = 0;
  /// The strategy's steps by ranks, ascending.
  std::vector<MeasuredStep> measured;
  /// Costs of the strategy's own collectives: while ranks compute, or without `loss.network` and `turn_s`
  /// where those tell what computing adds.
  std::vector<CollectivePoint> points;
  /// What had to be assumed, each a sentence.
  std::vector<std::string> notes;

  double computing_s() const { return forward_s + backward_s; }
  /// Whether the ranks of a host compute on all its cores, so that what else needs a core delays them.
  bool fills_cores(const Placement& at) const {
    return ranks_with_cores > 0 && std::min(at.per_host, at.ranks) >= ranks_with_cores;
  }
};

/// Choice among the rows of a record; empty: any.
struct ProfileChoice {
  std::string model;
  std::string strategy;
  int batch = 0;
};

/// Whether the record says on how many hosts a row ran.
inline bool knows_hosts(const results::Run& run) {
  return run.hosts > 0;
}

/// Whether a prediction can start from a row: it ended, and has a breakdown of every rank.
inline bool is_usable(const results::Run& run) {
  return run.finished() && !run.pooled && run.breakdown && !run.breakdown->ranks.empty();
}

/// Profiles of the strategies in a record that were measured with a breakdown, in order; of several settings
/// under one strategy the ones with the most ranks, of these the fastest, and with one row for each number of
/// ranks, the fastest. Under strong scaling those with the batch of the most ranks. A record whose only
/// breakdowns are of `single` gives a profile of ddp with buckets as planned. Throws ConfigError, `name`
/// being the file, for a record without a breakdown, with several networks or (weak scaling) batches where
/// the choice names none, with times that are no numbers, and with rows of unknown hosts.
std::vector<JobProfile> read_profiles(const results::RunRecord& record, const std::string& name,
                                      const ProfileChoice& choice);

}  // namespace lockstep::predict
