#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/predict/jobs/job_model.h"

namespace lockstep::predict {

struct SimulationOptions {
  int steps = 100;
  uint64_t seed = 1;
  /// The last rank computes so many times as long.
  double slow_rank = 1;
  /// One link has this share of the others' bandwidth, which every collective waits for.
  double thin_link = 1;
  /// The last host is lost after so many steps, and the others go on without it.
  std::optional<int> lost_host_after = {};
};

struct Simulation {
  /// From the end of the slowest rank's last step to the end of its next.
  std::vector<double> step_s;
  double images_per_s = 0;
  /// Share of a step by which it would be shorter if all ranks were as fast as one of them, mean over ranks;
  /// 0 for ranks that do not wait for each other.
  double waiting = 0;
};

/// Steps of all ranks, bucket by bucket: each rank draws its pace in every step (a host's part and its own),
/// a collective begins when its last rank is ready and the one before has ended, and a rank's next step
/// begins at the end of its own. The closed form of `model` has neither the carry from step to step nor ranks
/// that differ. Takes memory for the ranks, and time for ranks x steps x buckets.
Simulation simulate(const JobModel& model, const Scenario& scenario, const SimulationOptions& options);

/// The same for steps that are given: `before`, and from options.lost_host_after on `after` with fewer ranks.
/// Images are not counted.
Simulation simulate_steps(const JobStep& before, const JobStep& after, bool coupled, const StepNoise& noise,
                          const Placement& placement, const SimulationOptions& options);

}  // namespace lockstep::predict
