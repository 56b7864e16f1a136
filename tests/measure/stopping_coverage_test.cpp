#include <tuple>

#include <gtest/gtest.h>

#include "measure/coverage.h"

namespace lockstep::measure {
namespace {

using synthetic::CoverageOfBoth;

class StoppingCoverageTest : public testing::TestWithParam<std::tuple<double, double, bool>> {};

TEST_P(StoppingCoverageTest, interval_that_stopped_the_run_holds_the_truth_95_times_in_100) {
  const auto [lag_one, noise, log_normal] = GetParam();
  const CoverageOfBoth found = synthetic::cover_stopped({3000, lag_one, 0.1, noise, log_normal}, 2000, 30);
  EXPECT_GE(found.median.percent(), 93);
  EXPECT_LE(found.median.percent(), 97);
  EXPECT_GE(found.mean.percent(), 93);
  EXPECT_LE(found.mean.percent(), 97);
  EXPECT_GE(found.median.given_percent(), 99.5);
  EXPECT_LT(found.steps, 2000);
}

INSTANTIATE_TEST_SUITE_P(Quiet, StoppingCoverageTest,
                         testing::Combine(testing::Values(0.0, 0.3, 0.5, 0.7), testing::Values(0.05),
                                          testing::Bool()));
INSTANTIATE_TEST_SUITE_P(Noisy, StoppingCoverageTest,
                         testing::Combine(testing::Values(0.0, 0.3), testing::Values(0.1),
                                          testing::Values(false)));

/// One step in a hundred takes ten times as long: lenet5's on a machine that does other work.
TEST(StoppingCoverageTest, rare_long_steps_are_within_the_interval_of_the_mean) {
  const CoverageOfBoth found = synthetic::cover_stopped(
      {.steps = 10000, .median_s = 0.004, .noise = 0.02, .outlier_share = 0.01, .outlier = 10}, 300, 33);
  EXPECT_GE(found.median.percent(), 93);
  EXPECT_LE(found.median.percent(), 97.5);
  EXPECT_GE(found.mean.percent(), 93);
  EXPECT_LE(found.mean.percent(), 97.5);
  EXPECT_GT(found.steps, 4000);
}

TEST(StoppingCoverageLimitsTest, warmup_before_it_costs_little_coverage) {
  for (const double decay : {3.0, 8.0}) {
    const CoverageOfBoth found = synthetic::cover_stopped({3000, 0.3, 0.1, 0.05, false}, 1000, 31, decay);
    EXPECT_GE(found.median.percent(), 91) << decay;
  }
}

TEST(StoppingCoverageLimitsTest, very_strong_correlation_runs_on) {
  const CoverageOfBoth found = synthetic::cover_stopped({1500, 0.95, 0.1, 0.02, false}, 300, 32);
  EXPECT_GT(found.steps, 500);
  EXPECT_GE(found.median.percent(), 89);
}

}  // namespace
}  // namespace lockstep::measure
