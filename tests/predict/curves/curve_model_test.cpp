#include "lockstep/predict/curves/curve_model.h"

#include <gtest/gtest.h>

namespace lockstep::predict {
namespace {

TEST(CurveModelTest, an_interval_holds_its_prediction) {
  const Curve curve{.name = "a",
                    .model = "resnet50",
                    .precision = "fp32",
                    .points = {{.gpus = 1, .images_per_s = 10}, {.gpus = 2, .images_per_s = 19}}};
  const Forecast found = forecast(curve, curve.points, {.gpus = 4}, {});
  EXPECT_LT(found.low, found.images_per_s);
  EXPECT_LT(found.images_per_s, found.high);
  EXPECT_NEAR(found.images_per_s, 36.5, 2);
}

}  // namespace
}  // namespace lockstep::predict
