#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/measure/stopping.h"

#include "measure/synthetic.h"

namespace lockstep::measure {
namespace {

using synthetic::Generator;
using synthetic::Series;
using testing::HasSubstr;

constexpr int kWarmUps = 300;

/// The share of series whose cut lies in [truth - early, truth + late].
double share_cut_near(const Series& series, double truth, double early, double late,
                      const std::function<void(std::vector<double>&)>& warm_up) {
  Generator random(60);
  int near = 0;
  for (int i = 0; i < kWarmUps; ++i) {
    std::vector<double> step_s = synthetic::draw(series, random);
    warm_up(step_s);
    const SteadyState found = find_steady_state(step_s);
    const double off = static_cast<double>(found.cut) - truth;
    near += off >= -early && off <= late && found.settled ? 1 : 0;
  }
  return static_cast<double>(near) / kWarmUps;
}

TEST(SteadyStateTest, without_warmup_only_the_floor_is_cut) {
  for (const double lag_one : {0.0, 0.5, 0.7}) {
    for (const size_t steps : {30, 60, 200, 1000}) {
      EXPECT_GE(share_cut_near({steps, lag_one, 0.1, 0.02, false}, 3, 0, 0, [](auto&) {}), 0.94)
          << lag_one << " " << steps;
    }
  }
}

TEST(SteadyStateTest, a_warmup_that_ends_at_once_is_cut_to_a_few_steps) {
  for (const double lag_one : {0.0, 0.5}) {
    for (const double factor : {1.2, 3.0, 20.0}) {
      for (const size_t length : {6, 20, 60}) {
        const auto warm_up = [&](auto& step_s) { synthetic::add_step_warmup(step_s, length, factor); };
        const auto truth = static_cast<double>(length);
        EXPECT_GE(share_cut_near({200, lag_one, 0.1, 0.03, false}, truth, 1, 5, warm_up), 0.96)
            << lag_one << " " << factor << " " << length;
      }
    }
  }
}

/// A decay has no last step: it is cut at the earliest where it falls below the noise, and as long after as
/// its tail still adds up. That is a few steps for a fast decay, up to about two time constants for a slow
/// one.
TEST(SteadyStateTest, a_decaying_warmup_is_cut_when_its_tail_is_harmless) {
  for (const double noise : {0.01, 0.03}) {
    for (const double share : {0.5, 2.0}) {
      for (const double decay : {3.0, 10.0}) {
        const auto warm_up = [&](auto& step_s) { synthetic::add_decaying_warmup(step_s, 0.1, share, decay); };
        const double truth = decay * std::log(share / noise);
        const double late = decay < 5 ? 5 : 2.6 * decay;
        EXPECT_GE(share_cut_near({300, 0, 0.1, noise, false}, truth, 5, late, warm_up), 0.92)
            << noise << " " << share << " " << decay;
      }
    }
  }
}

TEST(SteadyStateTest, a_slow_decay_that_fills_the_run_is_not_over) {
  Generator random(68);
  int settled = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<double> step_s = synthetic::draw(Series{120, 0, 0.1, 0.01, false}, random);
    synthetic::add_decaying_warmup(step_s, 0.1, 2, 20);
    settled += find_steady_state(step_s).settled ? 1 : 0;
  }
  EXPECT_LE(settled, 5);
}

TEST(SteadyStateTest, a_late_outlier_is_no_warmup) {
  Generator random(61);
  std::vector<double> step_s = synthetic::draw(Series{200, 0, 0.1, 0.02, false}, random);
  step_s[60] = 1;
  step_s[61] = 0.8;
  const SteadyState found = find_steady_state(step_s);
  EXPECT_EQ(found.cut, 3U);
  EXPECT_TRUE(found.settled);
  EXPECT_EQ(found.chosen, "3 steps, the least: none after stands out");
}

TEST(SteadyStateTest, says_how_the_cut_was_chosen) {
  Generator random(62);
  std::vector<double> step_s = synthetic::draw(Series{200, 0, 0.1, 0.01, false}, random);
  synthetic::add_step_warmup(step_s, 17, 1.8);
  const SteadyState found = find_steady_state(step_s);
  EXPECT_EQ(found.cut, 17U);
  EXPECT_THAT(found.chosen, HasSubstr("17 steps: they took 1.8"));
}

TEST(SteadyStateTest, a_warmup_that_is_too_fast_is_found_too) {
  Generator random(63);
  std::vector<double> step_s = synthetic::draw(Series{200, 0, 0.1, 0.01, false}, random);
  synthetic::add_step_warmup(step_s, 25, 0.8);
  EXPECT_NEAR(static_cast<double>(find_steady_state(step_s).cut), 25, 2);
}

TEST(SteadyStateTest, of_a_training_only_slower_steps_are_warmup) {
  Generator random(63);
  const std::vector<double> level = synthetic::draw(Series{400, 0, 0.1, 0.01, false}, random);
  std::vector<double> slows_down = level;
  synthetic::add_step_warmup(slows_down, 150, 0.4);
  const SteadyState shift = find_steady_state(slows_down, /*only_slower=*/true);
  EXPECT_EQ(shift.cut, 3U);
  EXPECT_THAT(shift.unsettled_reason, HasSubstr("level shift at step 15"));
  std::vector<double> warms_up_first = slows_down;
  for (size_t i = 0; i < 10; ++i) warms_up_first[i] *= 5;
  EXPECT_NEAR(static_cast<double>(find_steady_state(warms_up_first, /*only_slower=*/true).cut), 10, 3);
  std::vector<double> warms_up = level;
  synthetic::add_step_warmup(warms_up, 60, 1.5);
  EXPECT_NEAR(static_cast<double>(find_steady_state(warms_up, /*only_slower=*/true).cut), 60, 3);
}

TEST(SteadyStateTest, still_warming_up_is_not_settled) {
  for (const size_t steps : {30, 100}) {
    Generator random(64);
    std::vector<double> step_s = synthetic::draw(Series{steps, 0, 0.1, 0.01, false}, random);
    for (size_t i = 0; i < steps; ++i) step_s[i] *= 2 - static_cast<double>(i) / static_cast<double>(steps);
    const SteadyState found = find_steady_state(step_s);
    EXPECT_FALSE(found.settled);
    EXPECT_FALSE(found.unsettled_reason.empty());
  }
}

TEST(SteadyStateTest, a_shift_late_in_the_run_is_reported_and_not_cut_away) {
  Generator random(65);
  std::vector<double> step_s = synthetic::draw(Series{200, 0, 0.1, 0.01, false}, random);
  for (size_t i = 150; i < step_s.size(); ++i) step_s[i] *= 1.2;
  const SteadyState found = find_steady_state(step_s);
  EXPECT_EQ(found.cut, 3U);
  EXPECT_FALSE(found.settled);
  EXPECT_THAT(found.unsettled_reason, testing::StartsWith("level shift at step 1"));
}

TEST(SteadyStateTest, no_more_than_a_thousand_steps_are_warmup) {
  Generator random(66);
  std::vector<double> step_s = synthetic::draw(Series{3000, 0, 0.1, 0.01, false}, random);
  synthetic::add_step_warmup(step_s, 1200, 2);
  const SteadyState found = find_steady_state(step_s);
  EXPECT_LE(found.cut, kMostWarmup);
  EXPECT_FALSE(found.settled);
}

TEST(SteadyStateTest, too_few_steps_are_not_settled) {
  for (const size_t steps : {0, 1, 3, 10, 18}) {
    const SteadyState found = find_steady_state(std::vector<double>(steps, 0.1));
    EXPECT_EQ(found.cut, std::min<size_t>(3, steps));
    EXPECT_FALSE(found.settled);
    EXPECT_EQ(found.unsettled_reason, "not enough data");
  }
}

TEST(SteadyStateTest, fixed_warmup_is_kept_and_judged) {
  Generator random(67);
  std::vector<double> step_s = synthetic::draw(Series{200, 0, 0.1, 0.01, false}, random);
  EXPECT_EQ(fixed_warmup(step_s, 20).cut, 20U);
  EXPECT_EQ(fixed_warmup(step_s, 20).chosen, "20 steps, as asked for");
  EXPECT_TRUE(fixed_warmup(step_s, 20).settled);
  synthetic::add_step_warmup(step_s, 60, 2);
  EXPECT_FALSE(fixed_warmup(step_s, 20).settled);
  EXPECT_EQ(fixed_warmup(step_s, 900).cut, 200U);
}

}  // namespace
}  // namespace lockstep::measure
