#pragma once

#include <optional>
#include <string>
#include <vector>

#include "flags.h"

namespace lockstep::cli {

/// The flags of `lockstep predict RUN.json`.
struct PredictJobOptions {
  std::string record;
  std::vector<int> ranks = {2, 4, 8, 16, 32, 64, 128};
  std::optional<int> per_host;
  std::optional<int> global_batch;
  std::string network;
  std::string collectives;
  std::string model;
  std::string strategy;
  std::optional<int> batch;
  /// Changes with commas between; "usual" for a set of them, empty for none.
  std::string what_if;
  std::optional<int> simulate;
  int steps = 100;
  uint64_t seed = 1;
  std::string slow_rank;
  std::string thin_link;
  std::optional<int> lose_host;
};

void add_predict_job_flags(Flags& flags, PredictJobOptions& options);

/// Predicts the strategies of a record; prints tables, or with `json` writes that file.
int run_predict_job(const PredictJobOptions& options, const std::string& json, bool markdown);

}  // namespace lockstep::cli
