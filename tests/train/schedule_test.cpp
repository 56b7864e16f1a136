#include "lockstep/train/training/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;

/// With 10 steps per epoch.
std::vector<double> rates(const ScheduleOptions& options, const std::vector<int64_t>& steps, int ranks = 1) {
  const Schedule schedule(options, ranks, 10);
  std::vector<double> found;
  for (const int64_t step : steps) found.push_back(schedule.rate(step));
  return found;
}

testing::Matcher<std::vector<double>> near(const std::vector<double>& expected) {
  return testing::Pointwise(testing::DoubleNear(1e-12), expected);
}

TEST(ScheduleTest, a_constant_rate_is_the_same_in_every_step) {
  EXPECT_THAT(rates({.learning_rate = 0.3, .epochs = 2}, {0, 7, 19}, 4), near({0.3, 0.3, 0.3}));
}

TEST(ScheduleTest, scaling_multiplies_by_the_ranks) {
  EXPECT_THAT(rates({.learning_rate = 0.1, .scale = true, .epochs = 2}, {0, 19}, 4), near({0.4, 0.4}));
}

TEST(ScheduleTest, warm_up_rises_from_the_unscaled_rate) {
  const ScheduleOptions options{.learning_rate = 0.1, .scale = true, .warmup_epochs = 2, .epochs = 3};
  // 20 steps from 0.1 to 0.4.
  EXPECT_THAT(rates(options, {0, 9, 19, 20}, 4), near({0.115, 0.25, 0.4, 0.4}));
}

TEST(ScheduleTest, warm_up_without_scaling_rises_from_nothing_but_is_never_nothing) {
  const ScheduleOptions options{.learning_rate = 0.1, .warmup_epochs = 0.5, .epochs = 3};
  EXPECT_THAT(rates(options, {0, 1, 4, 5}, 4), near({0.02, 0.04, 0.1, 0.1}));
}

TEST(ScheduleTest, steps_fall_at_the_beginning_of_their_epochs) {
  const ScheduleOptions options{.learning_rate = 1,
                                .warmup_epochs = 1,
                                .decay = Decay::kStep,
                                .decay_epochs = {2, 4},
                                .decay_factor = 0.1,
                                .epochs = 5};
  EXPECT_THAT(rates(options, {4, 19, 20, 39, 40, 49}), near({0.5, 1, 0.1, 0.1, 0.01, 0.01}));
}

TEST(ScheduleTest, a_cosine_falls_from_the_end_of_warm_up_to_nearly_nothing) {
  const ScheduleOptions options{
      .learning_rate = 0.8, .warmup_epochs = 1, .decay = Decay::kCosine, .epochs = 3};
  EXPECT_THAT(rates(options, {9, 10, 15, 20}), near({0.8, 0.8, 0.8 * 0.853553390593274, 0.4}));
  const double last = rates(options, {29}).front();
  EXPECT_GT(last, 0);
  EXPECT_LT(last, 0.01);
}

TEST(ScheduleTest, values_that_cannot_be_are_refused_with_their_flag) {
  const auto message = [](const ScheduleOptions& options) -> std::string {
    try {
      const Schedule schedule(options, 1, 10);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message({.warmup_epochs = 2}), HasSubstr("--warmup-epochs must lie between 0 and --epochs 1"));
  EXPECT_THAT(message({.decay_epochs = {3, 2}}), HasSubstr("--decay-epochs must be ascending"));
  EXPECT_EQ(message({}), "accepted");
  EXPECT_THROW(parse_decay("cosin"), ConfigError);
  EXPECT_EQ(parse_decay("cosine"), Decay::kCosine);
}

}  // namespace
}  // namespace lockstep::train
