#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/measure/series.h"

namespace lockstep::measure {
namespace {

/// Samples of one bell-shaped, flat or skewed level.
std::vector<double> level(double middle, int count, int shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> flat(0.5, 1.5);
  std::exponential_distribution<double> tail;
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    const double factor = shape == 0   ? std::exp(0.05 * normal(random))
                          : shape == 1 ? flat(random)
                                       : 1 + 0.3 * tail(random);
    samples.push_back(middle * factor);
  }
  return samples;
}

TEST(TwoModesTest, names_both_levels_of_a_mixture_and_the_share_of_the_slower) {
  std::vector<double> samples = level(100e-6, 300, 0, 1);
  const std::vector<double> slow = level(250e-6, 100, 0, 2);
  samples.insert(samples.end(), slow.begin(), slow.end());
  const std::optional<TwoModes> found = two_modes(samples);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->fast, 100e-6, 3e-6);
  EXPECT_NEAR(found->slow, 250e-6, 8e-6);
  EXPECT_NEAR(found->slow_share, 0.25, 0.01);
}

TEST(TwoModesTest, one_level_of_any_shape_has_none) {
  for (int shape = 0; shape < 3; ++shape) {
    for (uint32_t seed = 1; seed <= 50; ++seed)
      EXPECT_FALSE(two_modes(level(1e-3, 200, shape, seed))) << shape << ' ' << seed;
  }
}

TEST(TwoModesTest, too_little_is_none) {
  const std::vector<double> equal(100, 1e-3);
  EXPECT_FALSE(two_modes(equal));
  std::vector<double> few(20, 1e-3);
  few.insert(few.end(), 19, 2e-3);
  EXPECT_FALSE(two_modes(few));
  // Outliers, fewer than a tenth.
  std::vector<double> outliers(100, 1e-3);
  outliers.insert(outliers.end(), 5, 1);
  EXPECT_FALSE(two_modes(outliers));
  // Apart, but by too little to matter.
  std::vector<double> near(100, 1e-3);
  near.insert(near.end(), 100, 1.1e-3);
  EXPECT_FALSE(two_modes(near));
}

}  // namespace
}  // namespace lockstep::measure
