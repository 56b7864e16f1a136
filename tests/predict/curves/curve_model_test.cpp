#include "lockstep/predict/curves/curve_model.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

namespace lockstep::predict {
namespace {

TEST(CurveModelTest, an_interval_holds_its_prediction) {
  const Curve curve{.name = "a",
                    .model = "resnet50",
                    .precision = "fp32",
                    .points = {{.gpus = 1, .images_per_s = 10}, {.gpus = 2, .images_per_s = 19}}};
  const Forecast found = forecast(curve, curve.points, {.gpus = 4});
  EXPECT_LT(found.low, found.images_per_s);
  EXPECT_LT(found.images_per_s, found.high);
  EXPECT_NEAR(found.images_per_s, 36.5, 2);
}

Curve made_of(const std::function<double(double)>& cost, std::initializer_list<int> counts) {
  Curve curve{.name = "a", .model = "resnet50", .precision = "fp32", .points = {}};
  for (const int n : counts) curve.points.push_back({.gpus = n, .images_per_s = 100 * n / cost(n)});
  return curve;
}

double error_at(const Curve& curve, size_t known) {
  const CurvePoint& last = curve.points.back();
  return forecast(curve, std::span(curve.points).first(known), last).images_per_s / last.images_per_s - 1;
}

TEST(CurveModelTest, overheads_of_common_shapes_are_continued) {
  EXPECT_NEAR(error_at(made_of([](double) { return 1; }, {1, 2, 4, 8}), 3), 0, 0.005);
  EXPECT_NEAR(error_at(made_of([](double n) { return 1 + 0.03 * std::log2(n); }, {1, 2, 4, 8, 16}), 4), 0,
              0.02);
  EXPECT_NEAR(error_at(made_of([](double n) { return 1 + 0.2 * (n - 1) / n; }, {1, 2, 4, 8, 16}), 4), 0,
              0.04);
}

TEST(CurveModelTest, what_a_step_costs_whatever_its_batch_is_found_along_strong_scaling) {
  Curve curve = made_of([](double n) { return 1 + 0.05 * (n - 1); }, {1, 2, 4, 16});
  for (CurvePoint& point : curve.points) point.batch_per_gpu = 128.0 / point.gpus;
  EXPECT_NEAR(error_at(curve, 3), 0, 0.05);
}

TEST(CurveModelTest, fewer_known_counts_and_farther_ones_are_less_certain) {
  const Curve curve = made_of([](double n) { return 1 + 0.03 * std::log2(n); }, {1, 2, 4, 8, 64});
  const auto width = [&](size_t known, const CurvePoint& at) {
    const Forecast found = forecast(curve, std::span(curve.points).first(known), at);
    return found.high / found.low;
  };
  EXPECT_GT(width(1, curve.points.back()), width(3, curve.points.back()));
  EXPECT_GT(width(3, curve.points.back()), width(3, curve.points[3]));
}

TEST(CurveModelTest, nothing_known_of_one_node_tells_what_a_network_costs) {
  Curve curve = made_of([](double n) { return 1 + 0.01 * std::log2(n); }, {1, 2, 4, 8, 16, 32});
  const auto low_of = [&](size_t known, size_t at) {
    const Forecast found = forecast(curve, std::span(curve.points).first(known), curve.points[at]);
    return found.low / found.images_per_s;
  };
  const double in_a_node = low_of(4, 4);
  curve.points[4].nodes = 2;
  curve.points[5].nodes = 4;
  EXPECT_GT(in_a_node, 0.9);
  EXPECT_LT(low_of(4, 4), 0.8);
  EXPECT_GT(low_of(5, 5), 0.85) << "two nodes are known";
}

TEST(CurveModelTest, no_interval_is_far_above_perfect_scaling) {
  Curve curve = made_of([](double n) { return 1 + 0.05 * (n - 1); }, {1, 16});
  EXPECT_LT(forecast(curve, std::span(curve.points).first(1), curve.points[1]).high, 1600 / 0.85);
  curve.points[1].batch_per_gpu = 8;
  curve.points[0].batch_per_gpu = 128;
  EXPECT_LT(forecast(curve, std::span(curve.points).first(1), curve.points[1]).high, 1600 / 0.85);
}

}  // namespace
}  // namespace lockstep::predict
