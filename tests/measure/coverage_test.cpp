#include "measure/coverage.h"

#include <tuple>

#include <gtest/gtest.h>

namespace lockstep::measure {
namespace {

using synthetic::CoverageOfBoth;
using synthetic::Series;

constexpr int kTrials = 2000;

class CoverageTest : public testing::TestWithParam<std::tuple<double, size_t, bool>> {};

TEST_P(CoverageTest, interval_holds_the_truth_95_times_in_100) {
  const auto [lag_one, steps, log_normal] = GetParam();
  const Series series{steps, lag_one, 0.1, log_normal ? 0.5 : 0.1, log_normal};
  const CoverageOfBoth found = synthetic::cover(series, kTrials, 20);
  EXPECT_GE(found.median.percent(), 93);
  EXPECT_LE(found.median.percent(), 97);
  EXPECT_GE(found.mean.percent(), 93);
  EXPECT_LE(found.mean.percent(), 97);
  // A settled series is hardly ever refused.
  EXPECT_GE(found.median.given_percent(), 99);
  EXPECT_GE(found.mean.given_percent(), 99);
}

INSTANTIATE_TEST_SUITE_P(Series, CoverageTest,
                         testing::Combine(testing::Values(0.0, 0.3, 0.5, 0.7),
                                          testing::Values<size_t>(200, 500, 1000), testing::Bool()));

TEST(CoverageLimitsTest, very_strong_correlation_gets_no_confident_interval) {
  for (const size_t steps : {50, 200, 1000}) {
    const CoverageOfBoth found = synthetic::cover({steps, 0.95, 0.1, 0.1, false}, 1000, 21);
    EXPECT_LE(found.median.wrong_percent(), 6.5) << steps;
    EXPECT_LE(found.mean.wrong_percent(), 6.5) << steps;
    if (steps == 50) {
      EXPECT_LE(found.median.given_percent(), 15);
    } else if (steps == 1000) {
      EXPECT_GE(found.median.percent(), 93);
    }
  }
}

TEST(CoverageLimitsTest, too_few_samples_get_none_or_a_wide_one) {
  EXPECT_EQ(synthetic::cover({10, 0, 0.1, 0.1, false}, 1000, 22).median.given, 0);
  const CoverageOfBoth twenty = synthetic::cover({20, 0, 0.1, 0.1, false}, 1000, 22);
  EXPECT_GE(twenty.median.percent(), 94);
  EXPECT_GE(twenty.mean.percent(), 94);
  for (const double lag_one : {0.3, 0.5, 0.7, 0.95}) {
    const CoverageOfBoth found = synthetic::cover({20, lag_one, 0.1, 0.1, false}, 1000, 22);
    EXPECT_LE(found.median.wrong_percent(), 5) << lag_one;
    EXPECT_LE(found.mean.wrong_percent(), 6) << lag_one;
  }
}

/// The effect of a fixed pattern on a mean is known exactly: the pattern's own mean, whatever the noise.
TEST(CoverageLimitsTest, every_tenth_step_slow_is_no_reason_to_widen) {
  synthetic::Generator random(23);
  synthetic::Coverage mean;
  double width = 0;
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<double> step_s = synthetic::draw(Series{400, 0, 0.1, 0.02, false}, random);
    for (size_t i = 7; i < step_s.size(); i += 10) step_s[i] += 0.1;
    const Estimate estimate = mean_estimate(step_s);
    mean.count(estimate, 0.11);
    if (estimate.interval) width += estimate.interval->half_width_share / 500;
  }
  EXPECT_GE(mean.percent(), 93);
  EXPECT_LT(width, 0.01);  // 400 independent steps with this spread would give 0.027
}

}  // namespace
}  // namespace lockstep::measure
