#include "lockstep/measure/interval.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

#include "measure/synthetic.h"

namespace lockstep::measure {
namespace {

using synthetic::Generator;
using synthetic::Launches;
using synthetic::Series;

TEST(IntervalTest, surrounds_the_estimate_and_knows_its_width) {
  Generator random(70);
  const auto step_s = synthetic::draw(Series{200, 0.3, 0.1, 0.05, false}, random);
  for (const Estimate& estimate : {quantile_estimate(step_s, 0.5), mean_estimate(step_s)}) {
    ASSERT_TRUE(estimate.interval);
    EXPECT_LT(estimate.interval->lower, estimate.value);
    EXPECT_GT(estimate.interval->upper, estimate.value);
    EXPECT_NEAR(estimate.interval->half_width_share,
                (estimate.interval->upper - estimate.interval->lower) / 2 / estimate.value, 1e-12);
    EXPECT_EQ(estimate.reason_text, "");
  }
}

TEST(IntervalTest, correlation_widens_it) {
  Generator random(71);
  double white_width = 0;
  double correlated_width = 0;
  for (int i = 0; i < 50; ++i) {
    white_width += quantile_estimate(synthetic::draw(Series{500, 0, 0.1, 0.05, false}, random), 0.5)
                       .interval->half_width_share;
    const Estimate correlated = mean_estimate(synthetic::draw(Series{500, 0.7, 0.1, 0.05, false}, random));
    correlated_width += correlated.interval->half_width_share;
  }
  EXPECT_GT(correlated_width, 1.5 * white_width);
}

TEST(IntervalTest, of_the_median_does_not_care_for_the_shape) {
  Generator random(72);
  std::vector<double> step_s = synthetic::draw(Series{200, 0.5, 0.1, 0.1, false}, random);
  const Estimate plain = quantile_estimate(step_s, 0.5);
  for (double& step : step_s) step = std::exp(30 * step);
  const Estimate bent = quantile_estimate(step_s, 0.5);
  EXPECT_NEAR(std::log(bent.interval->lower) / 30, plain.interval->lower, 2e-4);
  EXPECT_NEAR(std::log(bent.interval->upper) / 30, plain.interval->upper, 2e-4);
}

TEST(IntervalTest, trend_gets_none) {
  Generator random(73);
  std::vector<double> step_s = synthetic::draw(Series{200, 0, 0.1, 0.02, false}, random);
  for (size_t i = 0; i < step_s.size(); ++i) step_s[i] *= 1 + 0.15 * static_cast<double>(i) / 200;
  for (const Estimate& estimate : {quantile_estimate(step_s, 0.5), mean_estimate(step_s)}) {
    EXPECT_FALSE(estimate.interval);
    EXPECT_EQ(estimate.reason_text, "trend");
    EXPECT_GT(estimate.value, 0.1);
  }
}

TEST(IntervalTest, level_shift_gets_none_and_is_placed) {
  Generator random(74);
  std::vector<double> step_s = synthetic::draw(Series{200, 0, 0.1, 0.01, false}, random);
  for (size_t i = 120; i < step_s.size(); ++i) step_s[i] *= 1.2;
  const Estimate estimate = quantile_estimate(step_s, 0.5);
  EXPECT_FALSE(estimate.interval);
  EXPECT_EQ(estimate.reason_text, "level shift at step 120");
}

TEST(IntervalTest, too_few_steps_get_none) {
  for (const size_t steps : {0, 1, 5, 10, 15}) {
    const std::vector<double> step_s(steps, 0.1);
    EXPECT_FALSE(quantile_estimate(step_s, 0.5).interval);
    EXPECT_EQ(quantile_estimate(step_s, 0.5).reason_text, "not enough data");
    EXPECT_FALSE(mean_estimate(step_s).interval);
  }
}

TEST(IntervalTest, a_constant_series_is_known_exactly) {
  const std::vector<double> step_s(100, 0.1);
  const Estimate median = quantile_estimate(step_s, 0.5);
  ASSERT_TRUE(median.interval);
  EXPECT_EQ(median.interval->half_width_share, 0);
  const Estimate mean = mean_estimate(step_s);
  ASSERT_TRUE(mean.interval);
  EXPECT_NEAR(mean.interval->half_width_share, 0, 1e-12);
}

TEST(IntervalTest, high_percentiles_need_more_steps) {
  Generator random(75);
  const auto step_s = synthetic::draw(Series{1000, 0, 0.1, 0.1, true}, random);
  const auto few = std::span<const double>(step_s).first(50);
  EXPECT_TRUE(quantile_estimate(few, 0.5).interval);
  EXPECT_FALSE(quantile_estimate(few, 0.99).interval);
  const Estimate p95 = quantile_estimate(step_s, 0.95);
  ASSERT_TRUE(p95.interval);
  EXPECT_LT(p95.interval->lower, 0.1 * std::exp(0.1 * 1.645));
  EXPECT_GT(p95.interval->upper, 0.1 * std::exp(0.1 * 1.645));
}

TEST(IntervalTest, launches_are_the_unit_where_there_are_several) {
  Generator random(76);
  int held = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto launches = synthetic::draw(Launches{.launches = 4, .launch_noise = 0.03}, random);
    const Estimate estimate = quantile_estimate(launches, 0.5);
    ASSERT_TRUE(estimate.interval);
    EXPECT_EQ(estimate.degrees, 3);
    held += estimate.interval->lower <= 0.1 && 0.1 <= estimate.interval->upper ? 1 : 0;
  }
  EXPECT_GE(held, 930);
  EXPECT_LE(held, 970);
}

TEST(IntervalTest, two_or_three_launches_are_too_few) {
  for (const size_t count : {2, 3}) {
    const std::vector<std::vector<double>> launches(count, std::vector<double>(50, 0.1));
    const Estimate estimate = quantile_estimate(launches, 0.5);
    EXPECT_FALSE(estimate.interval);
    EXPECT_EQ(estimate.reason_text, "fewer than 4 launches");
    EXPECT_NEAR(estimate.value, 0.1, 1e-12);
  }
}

TEST(IntervalTest, one_launch_is_one_series) {
  Generator random(77);
  const auto step_s = synthetic::draw(Series{}, random);
  const Estimate alone = quantile_estimate(step_s, 0.5);
  const Estimate launch = quantile_estimate(std::vector<std::vector<double>>{{}, step_s}, 0.5);
  EXPECT_EQ(alone.interval->lower, launch.interval->lower);
  EXPECT_EQ(mean_estimate(step_s).interval->upper,
            mean_estimate(std::vector<std::vector<double>>{step_s}).interval->upper);
  EXPECT_EQ(quantile_estimate(std::vector<std::vector<double>>{}, 0.5).reason_text, "not enough data");
}

TEST(IntervalTest, a_time_that_is_no_number_is_refused) {
  std::vector<double> step_s(100, 0.1);
  step_s[50] = std::numeric_limits<double>::infinity();
  EXPECT_THROW(quantile_estimate(step_s, 0.5), Error);
  EXPECT_THROW(mean_estimate(step_s), Error);
}

TEST(RatioIntervalTest, joins_the_reaches_of_both_sides_on_logarithms) {
  const auto found = ratio_interval({12, 12 / std::exp(0.03), 12 * std::exp(0.06)},
                                    {4, 4 / std::exp(0.08), 4 * std::exp(0.04)});
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->lower, 3 * std::exp(-0.05), 1e-12);
  EXPECT_NEAR(found->upper, 3 * std::exp(0.10), 1e-12);
  EXPECT_NEAR(found->half_width_share, 0.5 * (std::exp(0.10) - std::exp(-0.05)), 1e-12);
}

TEST(RatioIntervalTest, of_what_is_certain_is_the_other_sides) {
  const auto found = ratio_interval({10, 9, 11}, {5, 5, 5});
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->lower, 9.0 / 5, 1e-12);
  EXPECT_NEAR(found->upper, 11.0 / 5, 1e-12);
}

TEST(RatioIntervalTest, numbers_that_are_no_rates_have_none) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(ratio_interval({10, 0, 11}, {5, 4, 6}));
  EXPECT_FALSE(ratio_interval({10, 9, 11}, {5, 4, infinity}));
  EXPECT_FALSE(ratio_interval({std::nan(""), 9, 11}, {5, 4, 6}));
}

/// How many of the intervals of the ratio of two means hold the truth, in per cent.
template <typename Draw>
double ratio_coverage(const Draw& draw, double truth) {
  constexpr int kTrials = 2000;
  int held = 0;
  for (int i = 0; i < kTrials; ++i) {
    const Estimate above = mean_estimate(draw(true)), below = mean_estimate(draw(false));
    if (!above.interval || !below.interval) continue;
    const auto found = ratio_interval({above.value, above.interval->lower, above.interval->upper},
                                      {below.value, below.interval->lower, below.interval->upper});
    held += found && found->lower <= truth && truth <= found->upper ? 1 : 0;
  }
  return 100.0 * held / kTrials;
}

TEST(RatioIntervalTest, holds_the_truth_95_times_in_100_and_oftener_with_few_launches) {
  Generator random(76);
  const auto steps = [&](bool above) {
    return synthetic::draw(Series{200, 0.3, above ? 0.2 : 0.1, above ? 0.05 : 0.02, false}, random);
  };
  EXPECT_NEAR(ratio_coverage(steps, 2), 95, 1.5);
  for (const size_t launches : {4, 5, 8}) {
    const auto draw = [&](bool above) {
      return synthetic::draw(Launches{above ? launches : 5, 30, above ? 0.2 : 0.1, 0.02, 0.01, 0}, random);
    };
    EXPECT_GE(ratio_coverage(draw, 2), 93.5) << launches;
  }
}

}  // namespace
}  // namespace lockstep::measure
