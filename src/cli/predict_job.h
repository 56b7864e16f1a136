#pragma once

#include <optional>
#include <string>
#include <vector>

#include "flags.h"
#include "predict_verify.h"

namespace lockstep::cli {

/// The flags of `lockstep predict RUN.json`.
struct PredictJobOptions {
  std::string record;
  /// Empty: powers of two up to 128, or to verify the measured number.
  std::vector<int> ranks;
  std::optional<int> per_host;
  std::optional<int> global_batch;
  std::string network;
  std::string collectives;
  std::string model;
  std::string strategy;
  std::optional<int> batch;
  /// Changes with commas between; "usual" for a set of them, empty for none.
  std::string what_if;
  VerifyOptions verify;
  std::optional<int> simulate;
  int steps = 100;
  uint64_t seed = 1;
  std::string slow_rank;
  std::string thin_link;
  std::optional<int> lose_host;
};

void add_predict_job_flags(Flags& flags, PredictJobOptions& options);

/// Predicts the strategies of a record; prints tables, or with `json` writes that file. Returns the exit
/// code.
int run_predict_job(const PredictJobOptions& options, const std::string& json, bool markdown);

}  // namespace lockstep::cli
