#include <limits>

#include <gtest/gtest.h>

#include "lockstep/measure/series.h"

namespace lockstep::measure {
namespace {

TEST(DistributionsTest, normal_quantiles_are_those_of_the_tables) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-9);
  EXPECT_NEAR(normal_quantile(0.5), 0.0, 1e-12);
  EXPECT_NEAR(normal_quantile(0.0001), -3.719016485455709, 1e-8);
  EXPECT_NEAR(normal_quantile(0.8413447460685429), 1.0, 1e-12);
  EXPECT_EQ(normal_quantile(1), std::numeric_limits<double>::infinity());
}

TEST(DistributionsTest, student_t_quantiles_are_those_of_the_tables) {
  EXPECT_NEAR(student_t_quantile(0.975, 1), 12.706204736, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.975, 2), 4.30265273, 1e-7);
  EXPECT_NEAR(student_t_quantile(0.975, 4), 2.776445105, 1e-7);
  EXPECT_NEAR(student_t_quantile(0.995, 10), 3.169272673, 1e-7);
  EXPECT_NEAR(student_t_quantile(0.975, 1e6), 1.959966, 1e-5);
  EXPECT_NEAR(student_t_quantile(0.025, 4), -2.776445105, 1e-7);
}

TEST(DistributionsTest, student_t_p_values_are_those_of_the_tables) {
  EXPECT_NEAR(student_t_two_sided_p(2.776445105, 4), 0.05, 1e-9);
  EXPECT_NEAR(student_t_two_sided_p(-1, 1), 0.5, 1e-12);
  EXPECT_NEAR(student_t_two_sided_p(0, 3), 1.0, 1e-12);
  EXPECT_NEAR(student_t_quantile(0.75, 1), 1, 1e-12);
  // 1 - t / sqrt(2 + t^2), which is 1 / t^2 far out.
  EXPECT_NEAR(student_t_two_sided_p(1e9, 2) * 1e18, 1, 1e-9);
}

TEST(DistributionsTest, fractions_of_degrees_lie_between_their_neighbours) {
  const double between = student_t_quantile(0.975, 4.5);
  EXPECT_LT(between, student_t_quantile(0.975, 4));
  EXPECT_GT(between, student_t_quantile(0.975, 5));
}

}  // namespace
}  // namespace lockstep::measure
