#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/predict/curves/curve_model.h"
#include "lockstep/predict/jobs/collective_table.h"

namespace lockstep::predict {
namespace {

constexpr double kMiB = 1 << 20;

/// 40 MiB of gradients, two buckets; 0.3 s of computing per step on one GPU, so 0.1 s of backward per bucket.
Curve curve_with(std::vector<CurvePoint> points) {
  return {.name = "a", .model = "mine", .parameters = 10 * kMiB, .points = std::move(points)};
}

/// An all-reduce of 20 MiB takes so long.
CollectiveTable table_of(std::map<int, double> times) {
  CollectiveTable table("nccl");
  for (const auto& [ranks, time_s] : times) table.add({ranks, CollectiveKind::kAllReduce, 20 * kMiB, time_s});
  return table;
}

TEST(CurveTransferTest, backward_hides_all_but_the_last_bucket_until_the_link_is_slower) {
  Curve curve = curve_with({{.gpus = 1, .batch_per_gpu = 30, .images_per_s = 100},
                            {.gpus = 2, .batch_per_gpu = 30, .images_per_s = 150},
                            {.gpus = 4, .batch_per_gpu = 30, .images_per_s = 200}});
  ASSERT_TRUE(add_transfer(curve, table_of({{2, 0.04}, {4, 0.25}})));
  EXPECT_EQ(curve.points[0].transfer_s, 0);
  EXPECT_NEAR(*curve.points[1].transfer_s, 0.04, 1e-12);
  EXPECT_NEAR(*curve.points[2].transfer_s, 0.2 + 2 * 0.25 - 0.3, 1e-12);
}

TEST(CurveTransferTest, communication_of_the_smallest_count_is_not_computing) {
  // A step of 0.34 s, as two GPUs of the curve above would take.
  Curve curve = curve_with({{.gpus = 2, .batch_per_gpu = 30, .images_per_s = 60 / 0.34},
                            {.gpus = 4, .batch_per_gpu = 60, .images_per_s = 200}});
  ASSERT_TRUE(add_transfer(curve, table_of({{2, 0.04}, {4, 0.25}})));
  EXPECT_NEAR(*curve.points[0].transfer_s, 0.04, 1e-9);
  EXPECT_NEAR(*curve.points[1].transfer_s, 0.25 + 0.05, 1e-9) << "twice the batch computes for 0.6 s";
}

TEST(CurveTransferTest, a_curve_without_parameters_or_batches_is_left_alone) {
  Curve nameless = curve_with({{.gpus = 1, .batch_per_gpu = 30, .images_per_s = 100}});
  nameless.parameters = 0;
  EXPECT_FALSE(add_transfer(nameless, table_of({{2, 0.04}})));
  Curve curve = curve_with({{.gpus = 1, .images_per_s = 100}});
  EXPECT_FALSE(add_transfer(curve, table_of({{2, 0.04}})));
  EXPECT_FALSE(curve.points[0].transfer_s);
}

TEST(CurveTransferTest, a_slow_table_makes_a_slow_curve_and_16_bits_halve_it) {
  const auto efficiency = [](const std::string& precision) {
    Curve curve = curve_with({{.gpus = 1, .batch_per_gpu = 30, .images_per_s = 100},
                              {.gpus = 8, .batch_per_gpu = 30, .images_per_s = 1}});
    curve.precision = precision;
    CollectiveTable table("nccl");
    table.add({8, CollectiveKind::kAllReduce, 10 * kMiB, 0.5});
    table.add({8, CollectiveKind::kAllReduce, 20 * kMiB, 1});
    EXPECT_TRUE(add_transfer(curve, table));
    return predict_curves(std::span(&curve, 1), 1).at(0).forecast.images_per_s / 800;
  };
  // Two buckets of a second each begin after 0.2 s of 0.3, so a step takes 2.2 s, and a bit more for what no
  // table tells. Half of the bytes fit one bucket.
  EXPECT_NEAR(efficiency("fp32"), 0.3 / 2.2, 0.01);
  EXPECT_NEAR(efficiency("fp16 all-reduce"), 0.3 / 1.3, 0.02);
}

TEST(CurveTransferTest, an_interval_holds_that_nothing_is_hidden_until_a_count_tells) {
  // Two buckets of 0.1 s, one of which backward would hide; a step of two GPUs takes 0.5 s where it hides
  // none.
  const auto forecast_from = [](int known) {
    Curve curve = curve_with({{.gpus = 1, .batch_per_gpu = 30, .images_per_s = 100},
                              {.gpus = 2, .batch_per_gpu = 30, .images_per_s = 60 / 0.5},
                              {.gpus = 4, .batch_per_gpu = 30, .images_per_s = 120 / 0.5}});
    EXPECT_TRUE(add_transfer(curve, table_of({{2, 0.1}, {4, 0.1}})));
    EXPECT_NEAR(curve.points[1].hidden_s, 0.1, 1e-9);
    return predict_curves(std::span(&curve, 1), known).back();
  };
  const CurvePrediction blind = forecast_from(1), told = forecast_from(2);
  EXPECT_TRUE(blind.is_covered());
  EXPECT_GT(blind.forecast.high, 120 / 0.4) << "nor that it is";
  EXPECT_NEAR(told.forecast.images_per_s / told.measured, 1, 0.05);
}

/// The one site known that published both: from its 8 GPUs and its table to 16.
TEST(CurveTransferTest, a_published_table_predicts_its_cluster_within_a_tenth) {
  const std::string sources = std::string(LOCKSTEP_SOURCE_DIR) + "/data/published/sources/";
  std::vector<Curve> curves = read_curves(sources + "oci.csv");
  ASSERT_EQ(curves.size(), 2u);
  CollectiveTable table("nccl");
  for (const CollectivePoint& point :
       read_collectives(sources + "collectives_oci.csv", "nccl", [](const auto&) {}))
    table.add(point);
  EXPECT_EQ(table.most_ranks(), 16);
  for (Curve& curve : curves) {
    curve.parameters = 25557032;
    ASSERT_TRUE(add_transfer(curve, table));
  }
  for (const CurvePrediction& row : predict_curves(curves, 8)) {
    EXPECT_NEAR(row.forecast.images_per_s / row.measured, 1, 0.1) << row.curve;
    EXPECT_TRUE(row.is_covered()) << row.curve;
  }
}

}  // namespace
}  // namespace lockstep::predict
