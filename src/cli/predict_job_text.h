#pragma once

#include <optional>
#include <vector>

#include "lockstep/base/json_codec.h"
#include "lockstep/predict/jobs/job_model.h"
#include "lockstep/predict/jobs/simulate.h"
#include "lockstep/predict/jobs/what_if.h"
#include "lockstep/results/tables/document.h"

#include "predict_job.h"

namespace lockstep::cli {

/// All that is predicted of one strategy.
struct StrategyForecast {
  predict::JobModel model;
  std::vector<predict::JobPrediction> rows;
  int knee = 0;
  /// Bytes per second that an efficiency of 90 % needs at the last row, and those at present; empty: there
  /// are none, or none suffice.
  std::optional<double> needed_bandwidth;
  std::optional<double> present_bandwidth;
  /// Bytes of the largest message, where less latency would bring more than any bandwidth.
  std::optional<int64_t> latency_decides_bytes;
  /// What was left out, and what the measured collectives say of the link; sentences.
  std::vector<std::string> notes;
  std::vector<predict::ChangeEffect> effects;
  std::optional<Verification> verification;
  std::optional<predict::Simulation> simulation;
  std::optional<double> closed_form;
};

/// Changes of the job of the last row by their gain, behind a sentence on the first. Without `all`, those
/// without a gain above noise are only named.
results::Document effects_of(const StrategyForecast& forecast, bool all);

/// The answer in a sentence, the tables behind it, and notes on what the model does not know.
results::Document document_of(const PredictJobOptions& options, const StrategyForecast& forecast);

Json json_of(const StrategyForecast& forecast);

}  // namespace lockstep::cli
