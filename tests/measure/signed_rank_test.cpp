#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/measure/compare.h"

namespace lockstep::measure {
namespace {

/// 1 to 12, two of them negative, whose ranks have the sum 13: 87 of the 4096 choices of ranks have no more.
std::vector<double> twelve() {
  return {-1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -12};
}

TEST(SignedRankTest, the_chance_is_that_of_the_tables) {
  EXPECT_NEAR(signed_rank(twelve(), 0.95).p, 2 * 87 / 4096.0, 1e-12);
  EXPECT_DOUBLE_EQ(signed_rank(std::vector<double>{3, 1, 2}, 0.95).p, 0.25);
  EXPECT_DOUBLE_EQ(signed_rank(std::vector<double>{0, 0, 0, 0}, 0.95).p, 1);
}

TEST(SignedRankTest, the_interval_excludes_zero_exactly_where_the_chance_says_so) {
  const double p = signed_rank(twelve(), 0.95).p;
  EXPECT_GT(signed_rank(twelve(), 1 - p).lower, 0);
  EXPECT_LE(signed_rank(twelve(), 1 - 0.99 * p).lower, 0);
  std::vector<double> negative = twelve();
  for (double& value : negative) value = -value;
  EXPECT_LT(signed_rank(negative, 1 - p).upper, 0);
}

TEST(SignedRankTest, the_estimate_is_the_median_of_the_averages_of_pairs) {
  // Averages: 0, 0.5, 1, 2, 2.5, 4.
  EXPECT_DOUBLE_EQ(signed_rank(std::vector<double>{0, 1, 4}, 0.95).estimate, 1.5);
  EXPECT_DOUBLE_EQ(signed_rank(std::vector<double>{7}, 0.95).estimate, 7);
}

TEST(SignedRankTest, too_few_values_have_an_interval_without_ends) {
  const SignedRank found = signed_rank(std::vector<double>{3, 1, 2}, 0.95);
  EXPECT_FALSE(std::isfinite(found.lower) || std::isfinite(found.upper));
  EXPECT_DOUBLE_EQ(signed_rank(std::vector<double>{3, 1, 2}, 0.75).lower, 1);
}

TEST(SignedRankTest, an_outlier_counts_as_one_value_however_far) {
  std::vector<double> values = twelve();
  const SignedRank near = signed_rank(values, 0.95);
  *std::ranges::find(values, -12) = -1e9;
  const SignedRank far = signed_rank(values, 0.95);
  EXPECT_DOUBLE_EQ(far.p, near.p);
  EXPECT_DOUBLE_EQ(far.lower, near.lower);
  EXPECT_NEAR(far.estimate, near.estimate, 0.5);
}

TEST(SignedRankTest, intervals_hold_as_often_as_they_say) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  int held = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values(16);
    // One in eight is far out, on either side.
    for (double& value : values) value = 1 + normal(random) * (random() % 8 == 0 ? 10 : 1);
    const SignedRank found = signed_rank(values, 0.95);
    held += found.lower <= 1 && 1 <= found.upper ? 1 : 0;
  }
  EXPECT_GE(held, 0.94 * kTrials);
  EXPECT_LE(held, 0.97 * kTrials);
}

}  // namespace
}  // namespace lockstep::measure
