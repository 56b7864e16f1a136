#pragma once

#include <string>
#include <vector>

#include "lockstep/predict/jobs/job_model.h"

namespace lockstep::predict {

/// `scenario` with a change as on a command line: bandwidth=2x, bandwidth=25gbit, latency=0, latency=0.5x,
/// bucket=10, strategy=sharded, wire=bf16, no-straggler, batch=64, batch=2x, compute=2x, ranks=8. Throws
/// ConfigError for any other, for buckets of a strategy without them, and for a bandwidth where the present
/// one is not known.
Scenario changed(const JobModel& model, Scenario scenario, const std::string& change);

struct ChangeEffect {
  std::string change;
  JobPrediction prediction;
  /// Rate over the unchanged one, minus 1; low and high: the 90 % interval, in which what is uncertain
  /// changes both rates alike, but for the model's misfit.
  double gain = 0, low = 0, high = 0;
  /// JobModel::knee at an efficiency of 90 %.
  int knee = 0;
};

/// Effects of the changes, the largest gain first. The placement of `scenario` may leave a host partly empty,
/// which ranks=8 then fills.
std::vector<ChangeEffect> effects_of(const JobModel& model, const Scenario& scenario,
                                     const std::vector<std::string>& changes);

/// Changes worth a try for a job under the profile's strategy.
std::vector<std::string> usual_changes(const JobProfile& profile);

/// A link of "25gbit,20us" or "25gbit" (no latency). Throws ConfigError for any other text.
Link parse_network(const std::string& text);

}  // namespace lockstep::predict
