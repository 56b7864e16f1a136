#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/predict/curves/curve_model.h"

namespace lockstep::predict {

/// A count of a curve that was predicted from smaller ones, beside what was published.
struct CurvePrediction {
  std::string curve;
  int gpus = 0;
  Forecast forecast;
  double measured = 0;
  /// The largest count that the prediction knew.
  int known_gpus = 0;
  KnownCounts known = KnownCounts::kOne;
  /// Measured efficiency against the smallest count.
  double efficiency = 1;
  bool strong = false;
  bool several_nodes = false;
  /// Images per second by the yardsticks of every prediction: the efficiency of the last known count, and an
  /// overhead that grows with log2 N, by least squares.
  double last_efficiency = 0, log2 = 0;

  bool is_covered() const { return forecast.low <= measured && measured <= forecast.high; }
};

/// Predicts every count of every curve above `known_up_to` GPUs, or without it above half of the curve's
/// largest count, from the others; a curve's smallest count is always known. Curves without another count are
/// left out.
std::vector<CurvePrediction> predict_curves(std::span<const Curve> curves, std::optional<int> known_up_to,
                                            const CurvePrior& prior = kCurvePrior);

/// Relative errors, |predicted / measured - 1|.
struct ErrorSummary {
  double mean = 0;
  double median = 0;
  double p90 = 0;
};

/// Throws Error for no errors.
ErrorSummary summarize_errors(std::span<const double> errors);

}  // namespace lockstep::predict
