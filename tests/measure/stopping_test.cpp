#include "lockstep/measure/stopping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/synthetic.h"

namespace lockstep::measure {
namespace {

using synthetic::Generator;
using synthetic::Series;
using testing::HasSubstr;
using testing::StartsWith;

struct Whole {
  StoppingDecision last;
  size_t steps = 0;
  int looks = 0;
};

Whole run(const std::vector<double>& step_s, const StoppingOptions& options) {
  Whole result;
  double elapsed_s = 0;
  while (true) {
    ++result.looks;
    result.last = decide_stop(std::span<const double>(step_s).first(result.steps), elapsed_s, options);
    if (result.last.stop) return result;
    EXPECT_GE(result.last.steps_to_next, 1U);
    for (size_t i = 0; i < result.last.steps_to_next && result.steps < step_s.size(); ++i) {
      elapsed_s += step_s[result.steps++];
    }
  }
}

TEST(StoppingTest, stops_when_the_median_is_known_well_enough) {
  Generator random(80);
  const Whole quiet = run(synthetic::draw(Series{10000, 0.2, 0.1, 0.02, false}, random), {.max_time_s = 1e9});
  EXPECT_LT(quiet.last.median.interval->half_width_share, 0.02);
  EXPECT_THAT(quiet.last.text, StartsWith("precise: median known to "));
  const Whole noisy = run(synthetic::draw(Series{10000, 0.2, 0.1, 0.15, false}, random), {.max_time_s = 1e9});
  EXPECT_THAT(noisy.last.text, StartsWith("precise: "));
  EXPECT_GT(noisy.steps, 3 * quiet.steps);
}

TEST(StoppingTest, milliseconds_are_not_enough_however_narrow) {
  Generator random(89);
  const auto step_s = synthetic::draw(Series{10000, 0.2, 0.001, 0.02, false}, random);
  const Whole found = run(step_s, {.max_time_s = 1e9});
  EXPECT_THAT(found.last.text, StartsWith("precise: "));
  EXPECT_GE(found.steps, 1900U);
  EXPECT_LT(found.looks, 12) << "the rest of the time is one stretch";
  EXPECT_LT(run(step_s, {.min_time_s = 0.5, .max_time_s = 1e9}).steps, 1000U);
}

TEST(StoppingTest, rare_long_steps_are_measured_until_the_mean_is_known) {
  Generator random(90);
  const auto step_s =
      synthetic::draw(Series{.steps = 10000, .noise = 0.02, .outlier_share = 0.02, .outlier = 5}, random);
  const Whole found = run(step_s, {.max_time_s = 1e9});
  EXPECT_THAT(found.last.text, StartsWith("precise: "));
  EXPECT_LT(found.last.mean.interval->half_width_share, 0.02);
  EXPECT_GT(found.steps, 1000U) << "the median was known after 78";
}

TEST(StoppingTest, one_narrow_look_is_not_enough) {
  Generator random(88);
  for (int i = 0; i < 60; ++i) {
    const auto step_s = synthetic::draw(Series{3000, 0.3, 0.1, 0.1, false}, random);
    const Whole found = run(step_s, {.max_time_s = 1e9});
    ASSERT_THAT(found.last.text, StartsWith("precise: "));
    EXPECT_GE(found.last.median.degrees, 8);
    const size_t earlier = static_cast<size_t>(static_cast<double>(found.last.steady.remainder.steps) / 1.25);
    const Estimate before =
        quantile_estimate(std::span<const double>(step_s).subspan(found.last.steady.cut, earlier), 0.5,
                          {.check_settled = false});
    EXPECT_LT(before.interval->half_width_share, 0.02);
  }
}

TEST(StoppingTest, looks_seldom) {
  Generator random(81);
  const Whole found = run(synthetic::draw(Series{10000, 0, 0.1, 0.3, true}, random), {.max_time_s = 1e9});
  EXPECT_GT(found.steps, 1000U);
  EXPECT_LT(found.looks, 40);
}

TEST(StoppingTest, time_ends_it_nearly_on_time) {
  Generator random(82);
  const Whole found = run(synthetic::draw(Series{10000, 0, 0.1, 0.3, true}, random), {.max_time_s = 5});
  EXPECT_LT(found.steps, 60U);
  EXPECT_THAT(found.last.text, HasSubstr("the time of 5 s is over"));
}

TEST(StoppingTest, no_more_steps_are_asked_for_than_the_time_that_is_left_has_room_for) {
  Generator random(84);
  const std::vector<double> step_s = synthetic::draw(Series{200, 0, 0.1, 0.3, true}, random);
  const StoppingDecision late = decide_stop(step_s, 20, {.max_time_s = 21});
  EXPECT_FALSE(late.stop);
  EXPECT_LE(late.steps_to_next, 13U);
  EXPECT_GT(decide_stop(step_s, 20, {.max_time_s = 60}).steps_to_next, 40U);
}

TEST(StoppingTest, the_most_steps_are_not_overrun) {
  Generator random(83);
  const Whole found =
      run(synthetic::draw(Series{10000, 0, 0.1, 0.3, true}, random), {.max_time_s = 1e9, .max_steps = 333});
  EXPECT_THAT(found.last.text, StartsWith("333 steps are the most; "));
  EXPECT_EQ(found.steps, 333U);
}

TEST(StoppingTest, the_most_steps_do_not_end_it_before_its_least_time) {
  Generator random(85);
  const Whole found = run(synthetic::draw(Series{3000, 0, 0.1, 0.3, true}, random),
                          {.precision_target = 1e-4, .min_time_s = 100, .max_time_s = 1e9, .max_steps = 333});
  EXPECT_THAT(found.last.text, HasSubstr(" steps are the most; "));
  EXPECT_GT(found.steps, 900U);
  EXPECT_LT(found.steps, 1300U);
}

TEST(StoppingTest, an_unsettled_run_goes_on) {
  Generator random(84);
  std::vector<double> step_s = synthetic::draw(Series{1000, 0, 0.1, 0.001, false}, random);
  for (size_t i = 0; i < step_s.size(); ++i) step_s[i] *= 2 - 0.001 * static_cast<double>(i);
  const StoppingDecision found = decide_stop(step_s, 10);
  EXPECT_FALSE(found.stop);
  EXPECT_FALSE(found.median.interval);
  EXPECT_THAT(found.text, HasSubstr("not settled"));
}

TEST(StoppingTest, warmup_is_not_measured) {
  Generator random(86);
  std::vector<double> step_s = synthetic::draw(Series{2000, 0, 0.1, 0.02, false}, random);
  synthetic::add_step_warmup(step_s, 30, 3);
  const Whole found = run(step_s, {.max_time_s = 1e9});
  EXPECT_THAT(found.last.text, StartsWith("precise: "));
  EXPECT_NEAR(static_cast<double>(found.last.steady.cut), 30, 3);
  EXPECT_NEAR(found.last.median.value, 0.1, 0.002);
}

TEST(StoppingTest, fixed_warmup_is_kept) {
  Generator random(87);
  const auto step_s = synthetic::draw(Series{2000, 0, 0.1, 0.02, false}, random);
  EXPECT_EQ(run(step_s, {.max_time_s = 1e9, .fixed_warmup = 40}).last.steady.cut, 40U);
}

}  // namespace
}  // namespace lockstep::measure
