#pragma once

#include <span>
#include <vector>

namespace lockstep::predict {

/// A collective that follows the ones before it in one queue.
struct QueuedCollective {
  /// When its bytes are ready, in computing time from the begin of the step.
  double ready_s = 0;
  double cost_s = 0;
};

/// What computing and communicating at the same time cost each other: a collective takes (1 + network) times
/// as long while the rank computes (phi_n), computing takes (1 + compute) times as long while a collective
/// runs (phi_c).
struct OverlapLoss {
  double compute = 0;
  double network = 0;
};

struct OverlapEnd {
  /// The rank has computed all.
  double computed_s = 0;
  /// Ends of the collectives.
  std::vector<double> ended_s;

  double communicated_s() const { return ended_s.empty() ? 0 : ended_s.back(); }
};

/// Where `end_s` of computing and the queue end: c_k = max(r_k, f_(k-1)), f_k = c_k + A_k, with the losses
/// above. `ready_s` ascend. Without overlap the queue begins when all is computed.
OverlapEnd overlap(std::span<const QueuedCollective> queue, double end_s, const OverlapLoss& loss);

}  // namespace lockstep::predict
