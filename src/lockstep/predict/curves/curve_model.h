#pragma once

#include <span>

#include "lockstep/predict/curves/curve.h"

namespace lockstep::predict {

/// Images per second, and the interval that holds 90 % of measurements.
struct Forecast {
  double images_per_s = 0;
  double low = 0;
  double high = 0;
};

/// Predicts the rate of a curve's job at the count, nodes and batch of `at` from its `known` counts, one or
/// more. Formulas: docs/predicting.md.
Forecast forecast(const Curve& curve, std::span<const CurvePoint> known, const CurvePoint& at);

}  // namespace lockstep::predict
