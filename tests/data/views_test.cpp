#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/image.h"

namespace lockstep::data {
namespace {

TEST(ViewsTest, random_ones_lie_inside_and_keep_their_bounds) {
  Dice dice(1);
  double least = 1, most = 0;
  int mirrored = 0;
  constexpr int kViews = 2000;
  for (int i = 0; i < kViews; ++i) {
    const View view = random_resized_view({500, 375}, dice);
    ASSERT_GE(view.left, 0);
    ASSERT_GE(view.top, 0);
    ASSERT_LE(view.left + view.width, 500);
    ASSERT_LE(view.top + view.height, 375);
    const double area = view.width * view.height / (500. * 375.);
    const double ratio = view.width / view.height;
    ASSERT_GT(area, 0.079);
    ASSERT_GT(ratio, 0.74);
    ASSERT_LT(ratio, 1.35);
    least = std::min(least, area);
    most = std::max(most, area);
    mirrored += view.mirrored ? 1 : 0;
  }
  EXPECT_LT(least, 0.1);
  EXPECT_GT(most, 0.95);
  // Half of them, give or take 22.
  EXPECT_NEAR(mirrored, kViews / 2, 5 * 22.4);
}

TEST(ViewsTest, an_image_too_long_for_the_ratios_gives_its_middle) {
  Dice dice(1);
  const View view = random_resized_view({1000, 10}, dice);
  EXPECT_NEAR(view.width, 40. / 3., 1e-9);
  EXPECT_EQ(view.height, 10);
  EXPECT_NEAR(view.left + view.width / 2, 500, 1e-9);
  const View smallest = random_resized_view({1, 1}, dice);
  EXPECT_EQ(smallest.width, 1);
  EXPECT_EQ(smallest.height, 1);
}

TEST(ViewsTest, shifted_ones_reach_every_place) {
  Dice dice(7);
  std::set<std::pair<double, double>> places;
  for (int i = 0; i < 2000; ++i) {
    const View view = shifted_view({40, 40}, 4, dice);
    EXPECT_EQ(view.width, 32);
    EXPECT_EQ(view.height, 32);
    places.insert({view.left, view.top});
  }
  EXPECT_EQ(places.size(), 81U);
  EXPECT_EQ(places.begin()->first, 0);
  EXPECT_EQ(places.rbegin()->first, 8);
}

TEST(ViewsTest, the_middle_square_is_that_of_resize_256_and_crop_224) {
  const View view = centre_view({500, 400});
  EXPECT_EQ(view.width, 350);
  EXPECT_EQ(view.height, 350);
  EXPECT_EQ(view.left, 75);
  EXPECT_EQ(view.top, 25);
}

TEST(ViewsTest, random_numbers_are_the_same_everywhere) {
  Dice dice(5489);
  // The first output of this generator by the standard, 14514284786278117030, times 2^-64.
  EXPECT_DOUBLE_EQ(uniform(dice), 14514284786278117030. / 18446744073709551616.);
}

}  // namespace
}  // namespace lockstep::data
