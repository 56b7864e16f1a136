#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/series.h"

namespace lockstep::measure {
namespace {

TEST(PercentilesTest, interpolate_linearly_between_the_closest_ranks) {
  // Values of numpy.percentile([15, 20, 35, 40, 50], p).
  const std::vector<double> samples{40, 15, 50, 20, 35};
  EXPECT_DOUBLE_EQ(percentile(samples, 0), 15);
  EXPECT_DOUBLE_EQ(percentile(samples, 40), 29);
  EXPECT_DOUBLE_EQ(percentile(samples, 50), 35);
  EXPECT_DOUBLE_EQ(percentile(samples, 75), 40);
  EXPECT_DOUBLE_EQ(percentile(samples, 95), 48);
  EXPECT_DOUBLE_EQ(percentile(samples, 100), 50);
}

TEST(PercentilesTest, all_percentiles_of_one_sample_are_that_sample) {
  const std::vector<double> samples{0.25};
  for (const double p : {0.0, 50.0, 99.0, 100.0}) EXPECT_EQ(percentile(samples, p), 0.25);
}

TEST(PercentilesTest, what_cannot_be_ordered_is_refused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(percentile({}, 50), Error);
  EXPECT_THROW(percentile(std::vector<double>{1, nan}, 50), Error);
  EXPECT_THROW(percentile(std::vector<double>{1, 2}, 101), Error);
  EXPECT_THROW(percentile(std::vector<double>{1, 2}, nan), Error);
}

TEST(PercentilesTest, a_percentile_needs_one_sample_beyond_it) {
  EXPECT_EQ(samples_needed(50), 1);
  EXPECT_EQ(samples_needed(75), 4);
  EXPECT_EQ(samples_needed(90), 10);
  EXPECT_EQ(samples_needed(95), 20);
  EXPECT_EQ(samples_needed(99), 100);
}

TEST(PercentilesTest, too_few_steps_leave_a_percentile_empty) {
  const auto supported = [](size_t steps) {
    const StepPercentiles found = step_percentiles(std::vector<double>(steps, 1.0));
    return std::vector<bool>{found.p50.has_value(), found.p75.has_value(), found.p90.has_value(),
                             found.p95.has_value(), found.p99.has_value()};
  };
  EXPECT_EQ(supported(0), (std::vector<bool>{false, false, false, false, false}));
  EXPECT_EQ(supported(1), (std::vector<bool>{true, false, false, false, false}));
  EXPECT_EQ(supported(3), (std::vector<bool>{true, false, false, false, false}));
  EXPECT_EQ(supported(4), (std::vector<bool>{true, true, false, false, false}));
  EXPECT_EQ(supported(10), (std::vector<bool>{true, true, true, false, false}));
  EXPECT_EQ(supported(19), (std::vector<bool>{true, true, true, false, false}));
  EXPECT_EQ(supported(20), (std::vector<bool>{true, true, true, true, false}));
  EXPECT_EQ(supported(100), (std::vector<bool>{true, true, true, true, true}));
}

TEST(PercentilesTest, of_launches_are_geometric_means_and_need_enough_steps_in_each) {
  const std::vector<double> fast(20, 0.25), slow(20, 1.0);
  const StepPercentiles both = step_percentiles({fast, {}, slow});
  EXPECT_DOUBLE_EQ(both.p50.value(), 0.5);
  EXPECT_DOUBLE_EQ(both.p95.value(), 0.5);
  EXPECT_FALSE(both.p99);
  const StepPercentiles few = step_percentiles({fast, std::vector<double>(4, 1.0)});
  EXPECT_DOUBLE_EQ(few.p75.value(), 0.5);
  EXPECT_FALSE(few.p90);
  EXPECT_FALSE(step_percentiles(std::vector<std::vector<double>>{{}, {}}).p50);
}

}  // namespace
}  // namespace lockstep::measure
