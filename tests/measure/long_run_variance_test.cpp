#include <numbers>

#include <gtest/gtest.h>

#include "lockstep/measure/interval.h"

#include "measure/synthetic.h"

namespace lockstep::measure {
namespace {

/// Means over many series: the estimate itself scatters.
LongRunVariance average(size_t steps, double lag_one) {
  synthetic::Generator random(10);
  LongRunVariance mean;
  constexpr int kSeries = 400;
  for (int i = 0; i < kSeries; ++i) {
    const auto one = long_run_variance(synthetic::standard_normal_series(steps, lag_one, random));
    mean.value += one.value / kSeries;
    mean.single += one.single / kSeries;
    mean.lag_one += one.lag_one / kSeries;
    mean.degrees += one.degrees / kSeries;
  }
  return mean;
}

TEST(LongRunVarianceTest, is_that_of_the_autoregression) {
  for (const double lag_one : {-0.3, 0.0, 0.5, 0.7}) {
    const LongRunVariance found = average(1000, lag_one);
    const double truth = (1 + lag_one) / (1 - lag_one);
    EXPECT_NEAR(found.value, truth, 0.05 * truth) << lag_one;
    EXPECT_NEAR(found.single, 1, 0.05) << lag_one;
  }
}

TEST(LongRunVarianceTest, lag_one_of_short_series_is_not_too_small) {
  for (const double lag_one : {0.0, 0.5, 0.7})
    EXPECT_NEAR(average(40, lag_one).lag_one, lag_one, 0.03) << lag_one;
}

TEST(LongRunVarianceTest, is_known_less_well_where_correlation_is_strong) {
  EXPECT_GT(average(200, 0).degrees, 15);
  EXPECT_LT(average(200, 0.95).degrees, 6);
}

TEST(LongRunVarianceTest, a_regular_pattern_cancels) {
  std::vector<double> values(400);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 10 == 0 ? 1 : 0;
  const LongRunVariance found = long_run_variance(values);
  EXPECT_LT(found.value, 0.1 * found.single);
}

TEST(LongRunVarianceTest, a_constant_series_has_none) {
  const std::vector<double> same(50, 0.25);
  EXPECT_EQ(long_run_variance(same).value, 0);
  EXPECT_EQ(long_run_variance(same).integrated_time(), 1);
  EXPECT_EQ(indicator_long_run_variance(same, 0.25).value, 0);
}

/// For a normal autoregression the correlation of being below the median is 2 / pi * arcsin(phi^k).
TEST(LongRunVarianceTest, indicator_forgets_in_its_own_way) {
  for (const double lag_one : {0.0, 0.5, 0.9}) {
    double truth = 0.25;
    double power = 1;
    for (int lag = 1; lag < 400; ++lag) {
      power *= lag_one;
      truth += 0.5 * 2 / std::numbers::pi * std::asin(power);
    }
    synthetic::Generator random(11);
    double mean = 0;
    for (int i = 0; i < 300; ++i) {
      mean += indicator_long_run_variance(synthetic::standard_normal_series(2000, lag_one, random), 0).value /
              300;
    }
    EXPECT_NEAR(mean, truth, 0.06 * truth) << lag_one;
  }
}

}  // namespace
}  // namespace lockstep::measure
