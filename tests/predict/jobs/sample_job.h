#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "lockstep/predict/jobs/job_model.h"
#include "lockstep/results/record/run_record.h"

#include "results/sample_runs.h"

namespace lockstep::predict {

/// resnet50 with batch 8: alone 100 ms, ddp at 2 ranks of a host 120 ms, 10 of which are transfer,
/// independent at 2 ranks 105 ms.
inline results::RunRecord sample_record() {
  results::RunRecord record;
  record.runs = {results::measured_run("single", 1, 40, 0.1), results::measured_run("ddp", 2, 40, 0.12),
                 results::measured_run("independent", 2, 40, 0.105)};
  record.runs[1].breakdown = results::breakdown_of(2, 0.12, 0, 0.01);
  return record;
}

/// Its ddp, with the costs of its own buckets; `network` as --network takes it.
inline JobModel sample_model(const std::string& network = "", const std::string& device = "cpu") {
  JobProfile profile = read_profiles(sample_record(), "a.json", {}).front();
  profile.setup.device = device;
  CollectiveTable table(profile.backend);
  for (const CollectivePoint& point : profile.points) table.add(point);
  if (!network.empty()) table.set_network(parse_network(network), false);
  return {profile, table};
}

inline double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace lockstep::predict
