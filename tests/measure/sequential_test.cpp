#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/measure/compare.h"

namespace lockstep::measure {
namespace {

using testing::ElementsAre;

TEST(LookPlanTest, looks_grow_and_end_with_the_last_pair) {
  EXPECT_THAT(LookPlan(32).looks(), ElementsAre(4, 6, 8, 12, 16, 24, 32));
  EXPECT_THAT(LookPlan(20).looks(), ElementsAre(4, 6, 8, 12, 16, 20));
  EXPECT_THAT(LookPlan(6).looks(), ElementsAre(4, 6));
  EXPECT_THAT(LookPlan(5).looks(), ElementsAre(4, 5));
  EXPECT_THAT(LookPlan(3).looks(), ElementsAre(3));
  EXPECT_TRUE(LookPlan(32).is_look(24));
  EXPECT_FALSE(LookPlan(32).is_look(20));
}

TEST(LookPlanTest, half_of_the_error_is_for_the_last_look) {
  EXPECT_NEAR(LookPlan(3).confidence_of_look(true), 0.95, 1e-12);
  EXPECT_NEAR(LookPlan(32).confidence_of_look(true), 0.975, 1e-12);
  EXPECT_NEAR(LookPlan(32).confidence_of_look(false), 1 - 0.025 / 6, 1e-12);
  EXPECT_NEAR(LookPlan(6).confidence_of_look(false), 0.975, 1e-12);
}

/// Pairs of launches of one step each; the test takes `factor` times as long.
Comparison pairs_of(double factor, double noise, double threshold, size_t pairs = 6) {
  std::vector<std::vector<double>> base;
  std::vector<std::vector<double>> test;
  for (size_t i = 0; i < pairs; ++i) {
    base.push_back({0.1});
    test.push_back({0.1 * factor * (1 + (i % 2 == 0 ? noise : -noise))});
  }
  return compare(base, test, {.threshold = threshold, .paired = true});
}

TEST(CertaintyTest, a_difference_is_certain_however_small) {
  EXPECT_EQ(certainty_of(pairs_of(1.05, 0.001, 0.02)), Certainty::kDiffers);
  EXPECT_EQ(certainty_of(pairs_of(0.95, 0.001, 0.02)), Certainty::kDiffers);
  EXPECT_EQ(certainty_of(pairs_of(1.01, 0.001, 0.02)), Certainty::kDiffers);
}

TEST(CertaintyTest, an_interval_within_the_threshold_is_certain_too) {
  EXPECT_EQ(certainty_of(pairs_of(1, 0.01, 0.02)), Certainty::kBelowThreshold);
  EXPECT_EQ(certainty_of(pairs_of(1, 0.01, 0.005)), Certainty::kOpen);
  EXPECT_EQ(certainty_of(pairs_of(1, 0.1, 0.02)), Certainty::kOpen);
}

TEST(CertaintyTest, one_pair_is_never_certain) {
  EXPECT_EQ(certainty_of(pairs_of(1.5, 0, 0.02, 1)), Certainty::kOpen);
}

}  // namespace
}  // namespace lockstep::measure
