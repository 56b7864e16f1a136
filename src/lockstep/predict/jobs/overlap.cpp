#include "lockstep/predict/jobs/overlap.h"

#include <algorithm>

namespace lockstep::predict {

double BusyTime::end_of(double begin_s, double work_s) const {
  const double before_s = std::clamp(from_s - begin_s, 0.0, work_s), left_s = work_s - before_s;
  const double at_s = begin_s + before_s, busy_s = std::max(0.0, until_s - std::max(at_s, from_s));
  return at_s + (left_s * stretch <= busy_s ? left_s * stretch : busy_s + left_s - busy_s / stretch);
}

double BusyTime::work_in(double begin_s, double end_s) const {
  const double span_s = std::max(0.0, end_s - begin_s);
  const double busy_s = std::clamp(std::min(end_s, until_s) - std::max(begin_s, from_s), 0.0, span_s);
  return span_s - busy_s + busy_s / stretch;
}

BusyTime busy_time(const QueuedCollective& collective, double begin_s, double left_s,
                   const OverlapLoss& loss) {
  const double late_s = std::min(collective.late_s, left_s), cost_s = collective.cost_s;
  BusyTime busy{.from_s = begin_s + late_s, .stretch = 1 + loss.compute};
  const double computing_s = (left_s - late_s) * busy.stretch, slow_s = cost_s * (1 + loss.network);
  busy.until_s = busy.from_s +
                 (slow_s <= computing_s ? slow_s : computing_s + cost_s - computing_s / (1 + loss.network));
  return busy;
}

OverlapEnd overlap(std::span<const QueuedCollective> queue, double end_s, const OverlapLoss& loss) {
  // At `now_s`, when the last collective's turn came, `left_s` of computing is left.
  double now_s = 0, left_s = end_s;
  BusyTime busy{.stretch = 1 + loss.compute};
  OverlapEnd end;
  end.ended_s.reserve(queue.size());
  for (const QueuedCollective& collective : queue) {
    const double until_ready_s = std::max(0.0, std::min(collective.ready_s, end_s) - (end_s - left_s));
    const double ready_s = busy.end_of(now_s, until_ready_s) + std::max(0.0, collective.ready_s - end_s);
    const double begin_s = std::max(ready_s, busy.until_s);
    if (left_s > 0) end.computed_s = busy.end_of(now_s, left_s);
    left_s = std::max(0.0, left_s - busy.work_in(now_s, begin_s));
    now_s = begin_s;
    busy = busy_time(collective, begin_s, left_s, loss);
    end.ended_s.push_back(busy.until_s);
  }
  if (left_s > 0) end.computed_s = busy.end_of(now_s, left_s);
  return end;
}

}  // namespace lockstep::predict
