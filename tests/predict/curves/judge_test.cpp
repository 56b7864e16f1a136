#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/predict/curves/curve_model.h"

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
  const auto last_of = [](const Curve& curve) { return predict_curves(std::span(&curve, 1), {}).back(); };
  EXPECT_DOUBLE_EQ(last_of(curve_of({{1, 10}, {2, 18}, {4, 32.4}, {8, 1}})).last_efficiency, 64.8);
  EXPECT_NEAR(last_of(curve_of({{1, 10}, {2, 20 / 1.1}, {4, 40 / 1.2}, {16, 1}})).log2, 160 / 1.4, 1e-9);
}

TEST(JudgeTest, nodes_are_those_of_the_count) {
  Curve curve = curve_of({{1, 10}, {2, 19}, {4, 37}, {8, 70}});
  curve.points[2].nodes = 2;
  curve.points[3].nodes = 4;
  const std::vector<CurvePrediction> rows = predict_curves(std::span(&curve, 1), 1);
  EXPECT_FALSE(rows[0].several_nodes);
  EXPECT_TRUE(rows[1].several_nodes);
  EXPECT_EQ(rows[0].known, KnownCounts::kOne);
  EXPECT_EQ(rows[1].known, KnownCounts::kOneNodeForSeveral);
  EXPECT_EQ(predict_curves(std::span(&curve, 1), 4).front().known, KnownCounts::kSeveralNodes);
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
