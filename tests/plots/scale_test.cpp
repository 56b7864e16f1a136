#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/plots/frame.h"
#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

std::vector<std::string> labels(const Scale& scale) {
  std::vector<std::string> found;
  for (const Tick& tick : scale.ticks()) found.push_back(tick.label);
  return found;
}

TEST(ScaleTest, linear_ticks_are_round_numbers) {
  EXPECT_THAT(labels(Scale::linear(0, 97, 6)), testing::ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_THAT(labels(Scale::linear(0.81, 1.17, 5)), testing::ElementsAre("0.8", "0.9", "1.0", "1.1", "1.2"));
}

TEST(ScaleTest, log2_ticks_are_powers_of_two) {
  EXPECT_THAT(labels(Scale::log2(1, 7.3)), testing::ElementsAre("1", "2", "4", "8"));
  EXPECT_THAT(labels(Scale::log2(0.99, 7.3)), testing::ElementsAre("1", "2", "4", "8"));
}

TEST(ScaleTest, log10_ticks_are_one_two_and_five_times_powers_of_ten) {
  EXPECT_THAT(labels(Scale::log10(3, 40)), testing::ElementsAre("2", "5", "10", "20", "50"));
  EXPECT_THAT(labels(Scale::log10(2, 3e4)),
              testing::ElementsAre("1", "10", "100", "1000", "10,000", "100,000"));
}

TEST(ScaleTest, equal_ratios_are_equally_far_apart_on_log2) {
  Scale scale = Scale::log2(1, 128);
  scale.place(10, 710);
  EXPECT_DOUBLE_EQ(scale(1), 10);
  EXPECT_DOUBLE_EQ(scale(2), 110);
  EXPECT_DOUBLE_EQ(scale(64), 610);
}

TEST(ScaleTest, workers_have_ticks_where_they_are) {
  EXPECT_THAT(labels(Scale::log_at({6, 1, 3, 1, 2})), testing::ElementsAre("1", "2", "3", "6"));
}

TEST(ScaleTest, values_outside_stay_on_the_drawing) {
  Scale scale = Scale::linear(0, 10, 5);
  scale.place(0, 100);
  EXPECT_DOUBLE_EQ(scale(1e300), 100);
  EXPECT_DOUBLE_EQ(scale(-1), 0);
  EXPECT_DOUBLE_EQ(scale(std::numeric_limits<double>::quiet_NaN()), 0);
}

TEST(ScaleTest, any_range_can_be_drawn) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::pair<double, double> ranges[] = {{0, 0},    {5, 5},         {1e-12, 1e-12}, {-3, -3},
                                              {0, 1e-9}, {1e15, 1e15},   {kNaN, 1},      {0, kInf},
                                              {2, 1},    {1, 1 + 1e-15}, {1e-300, 1e300}};
  for (const auto& [low, high] : ranges) {
    for (Scale scale : {Scale::linear(low, high, 6), Scale::linear_exactly(low, high, 6),
                        Scale::log2(low, high), Scale::log10(low, high), Scale::log_at({low, high})}) {
      scale.place(0, 300);
      EXPECT_GE(scale.ticks().size(), 1U) << low << " to " << high;
      EXPECT_LE(scale.ticks().size(), 2100U) << low << " to " << high;
      EXPECT_GE(scale(low), 0);
      EXPECT_LE(scale(high), 300);
    }
  }
}

TEST(ScaleTest, labels_keep_their_distance) {
  std::vector<double> workers;
  for (int n = 1; n <= 128; ++n) workers.push_back(n);
  Scale scale = Scale::log_at(workers);
  scale.place(0, 300);
  double free_from = -1e9;
  std::vector<std::string> shown;
  for (const Tick& tick : scale.spaced_ticks(8, true)) {
    if (tick.label.empty()) continue;
    EXPECT_GE(scale(tick.value) - text_width(tick.label) / 2, free_from);
    free_from = scale(tick.value) + text_width(tick.label) / 2 + 8;
    shown.push_back(tick.label);
  }
  EXPECT_THAT(shown, testing::IsSupersetOf({"1", "2", "4", "8", "16", "32", "64", "128"}));
}

}  // namespace
}  // namespace lockstep::plots
