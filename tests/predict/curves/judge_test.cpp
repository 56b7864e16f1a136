#include "lockstep/predict/curves/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::predict {
namespace {

using testing::ElementsAre;

Curve curve_of(std::vector<std::pair<int, double>> rates) {
  Curve curve{.name = "a", .model = "resnet50", .precision = "fp32", .points = {}};
  for (const auto& [gpus, rate] : rates)
    curve.points.push_back({.gpus = gpus, .nodes = 1, .batch_per_gpu = 32, .images_per_s = rate});
  return curve;
}

std::vector<int> predicted_counts(const Curve& curve, std::optional<int> known_up_to) {
  std::vector<int> counts;
  for (const CurvePrediction& row : predict_curves(std::span(&curve, 1), known_up_to))
    counts.push_back(row.gpus);
  return counts;
}

TEST(JudgeTest, counts_above_the_known_ones_are_predicted) {
  const Curve curve = curve_of({{1, 10}, {2, 19}, {4, 37}, {6, 54}, {8, 70}});
  EXPECT_THAT(predicted_counts(curve, {}), ElementsAre(6, 8));
  EXPECT_THAT(predicted_counts(curve, 1), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(predicted_counts(curve, 8), ElementsAre());
  EXPECT_THAT(predicted_counts(curve_of({{4, 10}, {6, 14}}), {}), ElementsAre(6))
      << "the smallest is always known";
  EXPECT_THAT(predicted_counts(curve_of({{4, 10}}), {}), ElementsAre());
}

TEST(JudgeTest, simple_predictors_continue_what_they_assume) {
  const Curve curve = curve_of({{1, 10}, {2, 18}, {4, 32.4}});
  const auto at_8 = [&](size_t i) { return kSimplePredictors[i].images_per_s(curve.points, 8); };
  EXPECT_DOUBLE_EQ(at_8(0), 80);
  EXPECT_DOUBLE_EQ(at_8(1), 64.8);
  EXPECT_NEAR(at_8(2), 58.32, 1e-9);
  EXPECT_NEAR(at_8(5), 58.32, 1e-9);
  const Curve log2 = curve_of({{1, 10}, {2, 20 / 1.1}, {4, 40 / 1.2}});
  EXPECT_NEAR(kSimplePredictors[kLog2].images_per_s(log2.points, 16), 160 / 1.4, 1e-9);
  const Curve proportional = curve_of({{1, 10}, {2, 20 / 1.1}, {4, 40 / 1.3}});
  EXPECT_NEAR(kSimplePredictors[4].images_per_s(proportional.points, 8), 80 / 1.7, 1e-9);
}

TEST(JudgeTest, errors_are_summarized) {
  const std::vector<double> errors{0.1, 0.2, 0.6};
  const ErrorSummary summary = summarize_errors(errors);
  EXPECT_NEAR(summary.mean, 0.3, 1e-12);
  EXPECT_NEAR(summary.median, 0.2, 1e-12);
  EXPECT_NEAR(summary.p90, 0.52, 1e-12);
}

}  // namespace
}  // namespace lockstep::predict
