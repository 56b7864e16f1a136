#include "lockstep/predict/jobs/overlap.h"

#include <algorithm>

namespace lockstep::predict {

OverlapEnd overlap(std::span<const QueuedCollective> queue, double end_s, const OverlapLoss& loss) {
  const double stretch = 1 + loss.compute;
  // `now_s` is when `computed_s` of computing is done; the queue is busy from then until `free_s`.
  double now_s = 0, computed_s = 0, free_s = 0;
  OverlapEnd end;
  end.ended_s.reserve(queue.size());
  const auto compute_until = [&](double goal_s) {
    const double busy_s = std::max(0.0, free_s - now_s);
    const double left_s = std::max(0.0, goal_s - computed_s);
    now_s += left_s * stretch <= busy_s ? left_s * stretch : busy_s + left_s - busy_s / stretch;
    computed_s = std::max(computed_s, goal_s);
  };
  for (const QueuedCollective& collective : queue) {
    compute_until(std::min(collective.ready_s, end_s));
    const double begin_s = std::max(now_s + std::max(0.0, collective.ready_s - end_s), free_s);
    const double computing_s = std::max(0.0, (end_s - computed_s) * stretch - std::max(0.0, begin_s - now_s));
    const double slow_s = collective.cost_s * (1 + loss.network);
    free_s = slow_s <= computing_s
                 ? begin_s + slow_s
                 : begin_s + computing_s + collective.cost_s - computing_s / (1 + loss.network);
    end.ended_s.push_back(free_s);
  }
  compute_until(end_s);
  end.computed_s = now_s;
  return end;
}

}  // namespace lockstep::predict
