#include "lockstep/measure/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::measure {
namespace {

TEST(SeriesTest, median_of_even_and_odd_counts) {
  EXPECT_DOUBLE_EQ(median_of(std::vector{3.0, 1.0, 2.0}), 2);
  EXPECT_DOUBLE_EQ(median_of(std::vector{4.0, 1.0, 2.0, 3.0}), 2.5);
  EXPECT_DOUBLE_EQ(median_of(std::vector{7.0}), 7);
}

TEST(SeriesTest, places_between_values_lie_on_straight_lines) {
  const std::vector<double> sorted{1, 2, 4};
  EXPECT_DOUBLE_EQ(value_at_place(sorted, 1.5), 3);
  EXPECT_DOUBLE_EQ(value_at_place(sorted, -3), 1);
  EXPECT_DOUBLE_EQ(value_at_place(sorted, 9), 4);
}

TEST(SeriesTest, one_outlier_does_not_move_the_scale) {
  std::vector<double> values{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const RobustScale before = robust_scale(values);
  values.back() = 1e9;
  const RobustScale after = robust_scale(values);
  EXPECT_DOUBLE_EQ(before.median, after.median);
  EXPECT_DOUBLE_EQ(before.deviation, after.deviation);
}

TEST(SeriesTest, half_equal_values_still_have_a_scale) {
  EXPECT_GT(robust_scale(std::vector{1.0, 1.0, 1.0, 1.0, 2.0}).deviation, 0);
  EXPECT_EQ(robust_scale(std::vector{1.0, 1.0, 1.0}).deviation, 0);
}

TEST(SeriesTest, normal_scores_depend_on_ranks_only) {
  const std::vector<double> scores = normal_scores(std::vector{3.0, 1.0, 2.0});
  EXPECT_THAT(normal_scores(std::vector{3e9, -5.0, 2.0}), testing::ElementsAreArray(scores));
  EXPECT_NEAR(scores[2], 0, 1e-12);
  EXPECT_NEAR(scores[0], -scores[1], 1e-9);
}

TEST(SeriesTest, equal_values_share_a_score) {
  const std::vector<double> scores = normal_scores(std::vector{5.0, 1.0, 5.0, 9.0});
  EXPECT_EQ(scores[0], scores[2]);
  EXPECT_LT(scores[1], scores[0]);
  EXPECT_LT(scores[0], scores[3]);
}

}  // namespace
}  // namespace lockstep::measure
