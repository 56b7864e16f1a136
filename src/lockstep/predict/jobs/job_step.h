#pragma once

#include <vector>

#include "lockstep/predict/jobs/overlap.h"

namespace lockstep::predict {

/// A step of one rank at some number of ranks, without noise; seconds.
struct JobStep {
  /// Values that are fetched before forward, and a server's work for all ranks, below which no step lasts.
  double fetch_s = 0;
  double servers_s = 0;
  /// Input, forward and backward.
  double computing_s = 0;
  double update_s = 0;
  double other_s = 0;
  /// Waiting and other time that no change but its own shortens.
  double fixed_s = 0;
  /// Of gradients.
  std::vector<QueuedCollective> queue = {};
  /// Of values, one per gradient collective, in the same queue behind all of them.
  std::vector<double> gather_s = {};
  OverlapLoss loss = {};
  bool overlaps = true;
  bool updates_on_arrival = false;
};

/// The step of a job whose slowest rank computes (1 + noise) times as long: T = fetch + what overlap() gives
/// + update
/// + the rest. A bucket's update begins when it has arrived and those before it are updated.
double step_s(const JobStep& step, double noise);

}  // namespace lockstep::predict
