#include "lockstep/predict/jobs/job_step.h"

#include <algorithm>
#include <numeric>

namespace lockstep::predict {

double step_s(const JobStep& step, double noise) {
  const double pace = 1 + noise, computing_s = step.computing_s * pace;
  std::vector<QueuedCollective> queue = step.queue;
  for (QueuedCollective& collective : queue)
    collective.ready_s = step.overlaps ? collective.ready_s * pace : computing_s;
  const OverlapEnd end = overlap(queue, computing_s, step.loss);
  double updated_s = end.computed_s, gathered_s = end.communicated_s();
  const double update_s = step.update_s * pace;
  if (step.updates_on_arrival && !queue.empty()) {
    const double each_s = update_s / static_cast<double>(queue.size());
    for (size_t k = 0; k < queue.size(); ++k) {
      updated_s = std::max(updated_s, end.ended_s[k]) + each_s;
      if (k < step.gather_s.size()) gathered_s = std::max(gathered_s, updated_s) + step.gather_s[k];
    }
  } else {
    updated_s = std::max(updated_s, gathered_s) + update_s;
    gathered_s = std::accumulate(step.gather_s.begin(), step.gather_s.end(), updated_s);
  }
  const double own_s = step.fetch_s + std::max(updated_s, gathered_s) + step.other_s * pace + step.fixed_s;
  return std::max(own_s, step.servers_s);
}

}  // namespace lockstep::predict
