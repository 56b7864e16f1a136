#pragma once

#include <array>
#include <span>

#include "lockstep/predict/curves/curve.h"

namespace lockstep::predict {

/// Images per second at `gpus`, from the counts below.
struct SimplePredictor {
  const char* name;
  double (*images_per_s)(std::span<const CurvePoint> known, int gpus);
};

/// Place of the overhead that grows with log2 N.
inline constexpr size_t kLog2 = 3;

/// Predictors without a model, the yardsticks of every prediction.
extern const std::array<SimplePredictor, 6> kSimplePredictors;

}  // namespace lockstep::predict
