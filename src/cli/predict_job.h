#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/results/tables/document.h"
#include "lockstep/results/tables/labels.h"

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
  PredictVerifyOptions verify;
  std::optional<int> simulate;
  int steps = 100;
  uint64_t seed = 1;
  std::string slow_rank;
  std::string thin_link;
  std::optional<int> lose_host;
};

void add_predict_job_flags(Flags& flags, PredictJobOptions& options);

/// Predictions from a record in the file `path`: how the speed-ups of its jobs go on, to 8 times the largest
/// number of ranks measured; and what would help the job with the most ranks, or why that is not known.
struct Outlook {
  std::vector<std::vector<results::Forecast>> forecasts;
  results::Document help;
};
Outlook outlook_of(const results::RunRecord& record, const std::string& path);

/// Predicts the strategies of a record; prints tables, or with `json` writes that file. Returns the exit
/// code.
int run_predict_job(const PredictJobOptions& options, const std::string& json, bool markdown);

}  // namespace lockstep::cli
