#pragma once

#include <string>

#include "lockstep/results/run_record.h"

namespace lockstep::results {

/// A run that says what it is and has found nothing yet.
inline Run plain_run(const std::string& strategy, int ranks) {
  Run run;
  run.model = "resnet50";
  run.batch_per_rank = 8;
  run.ranks = ranks;
  run.strategy = strategy;
  run.backend = "gloo";
  run.precision = "fp32";
  run.memory_format = "channels_last";
  run.image_size = 224;
  run.bucket_mb = 25;
  run.threads_per_rank = 1;
  run.coupled = strategy != "independent";
  return run;
}

}  // namespace lockstep::results
