#pragma once

#include <span>
#include <vector>

namespace lockstep::predict {

/// A collective that follows the ones before it in one queue.
struct QueuedCollective {
  /// When its bytes are ready, in computing time from the begin of the step.
  double ready_s = 0;
  double cost_s = 0;
  /// How late it begins while the rank computes, because its thread waits for a turn of the processor.
  double late_s = 0;
};

/// What computing and communicating at the same time cost each other: a collective takes (1 + network) times
/// as long while the rank computes (phi_n), computing takes (1 + compute) times as long while a collective
/// runs (phi_c).
struct OverlapLoss {
  double compute = 0;
  double network = 0;
};

/// Time in which a collective runs and ranks compute 1/stretch as fast.
struct BusyTime {
  double from_s = 0, until_s = 0, stretch = 1;

  /// When `work_s` of computing that begins at `begin_s` is done.
  double end_of(double begin_s, double work_s) const;
  /// Computing that is done between two times.
  double work_in(double begin_s, double end_s) const;
};

/// The busy time of a collective whose turn comes at `begin_s`, when the rank has `left_s` of computing left.
BusyTime busy_time(const QueuedCollective& collective, double begin_s, double left_s,
                   const OverlapLoss& loss);

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
