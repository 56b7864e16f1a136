#include "lockstep/predict/curves/judge.h"

#include <algorithm>
#include <numeric>

#include "lockstep/measure/percentiles.h"

namespace lockstep::predict {
std::vector<CurvePrediction> predict_curves(std::span<const Curve> curves, std::optional<int> known_up_to,
                                            const CurvePrior& prior) {
  std::vector<CurvePrediction> predictions;
  for (const Curve& curve : curves) {
    const int limit = known_up_to.value_or(curve.points.back().gpus / 2);
    const auto beyond = std::ranges::find_if(
        curve.points.begin() + 1, curve.points.end(), [limit](int gpus) { return gpus > limit; },
        &CurvePoint::gpus);
    const std::span<const CurvePoint> known(curve.points.begin(), beyond);
    for (const CurvePoint& point : std::span(beyond, curve.points.end())) {
      predictions.push_back({.curve = curve.name,
                             .gpus = point.gpus,
                             .forecast = forecast(curve, known, point, prior),
                             .measured = point.images_per_s,
                             .known_gpus = known.back().gpus,
                             .known = known_counts(known, point),
                             .efficiency = curve.points.front().cost_s() / point.cost_s(),
                             .strong = curve.is_strong(),
                             .several_nodes = point.nodes > 1,
                             .last_efficiency = point.gpus / known.back().cost_s(),
                             .log2 = by_log2(known, point.gpus)});
    }
  }
  return predictions;
}

ErrorSummary summarize_errors(std::span<const double> errors) {
  return {.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size()),
          .median = measure::percentile(errors, 50),
          .p90 = measure::percentile(errors, 90)};
}

}  // namespace lockstep::predict
