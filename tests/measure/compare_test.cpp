#include "lockstep/measure/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/synthetic.h"
#include "measure/verdict_words.h"

namespace lockstep::measure {
namespace {

using synthetic::Generator;
using synthetic::Launches;
using synthetic::Series;

std::vector<std::vector<double>> constant_launches(std::initializer_list<double> levels) {
  std::vector<std::vector<double>> launches;
  for (const double level : levels) launches.emplace_back(30, level);
  return launches;
}

TEST(CompareTest, ratio_and_change_follow_the_definitions) {
  const Comparison row = compare(constant_launches({0.1, 0.1}), constant_launches({0.11, 0.11}));
  EXPECT_NEAR(row.ratio, 1.1, 1e-9);
  EXPECT_NEAR(row.change_percent(), -10, 1e-9);
  EXPECT_EQ(row.verdict, Verdict::kSlower);
  EXPECT_TRUE(row.is_regression());
  EXPECT_EQ(verdict_words(row), "slower");
}

/// Log step times 0, 1, 2 against 3, 5, 7: difference 4, squared errors 1/3 and 4/3, so t = 4 / sqrt(5/3)
/// with (5/3)^2 / ((1/9 + 16/9) / 2) = 50/17 degrees of freedom.
TEST(CompareTest, launches_are_compared_by_welch) {
  const auto e = [](double x) { return 0.001 * std::exp(x); };
  const Comparison row =
      compare(constant_launches({e(0), e(1), e(2)}), constant_launches({e(3), e(5), e(7)}));
  EXPECT_NEAR(std::log(row.ratio), 4, 1e-9);
  EXPECT_NEAR(*row.p, 0.0546, 0.0005);
  EXPECT_EQ(row.verdict, Verdict::kSame);
  EXPECT_NEAR(std::log(row.ratio_interval->lower), 4 - 3.2192 * std::sqrt(5.0 / 3), 0.01);
}

TEST(CompareTest, pairs_are_compared_as_pairs) {
  const auto base = constant_launches({0.1, 0.2, 0.3, 0.4});
  const auto test = constant_launches({0.102, 0.2042, 0.306, 0.4078});
  EXPECT_EQ(compare(base, test, {.paired = true}).verdict, Verdict::kSlower);
  EXPECT_EQ(compare(base, test, {.paired = false}).verdict, Verdict::kSame);
}

TEST(CompareTest, a_pair_that_lost_a_launch_unpairs_all) {
  auto base = constant_launches({0.1, 0.2, 0.3, 0.4});
  auto test = constant_launches({0.102, 0.2042, 0.306, 0.4078});
  test[1].clear();
  EXPECT_EQ(compare(base, test, {.paired = true}).verdict, Verdict::kSame);
}

TEST(CompareTest, one_launch_a_side_is_no_regression) {
  Generator random(90);
  const std::vector<std::vector<double>> base{synthetic::draw(Series{200, 0.3, 0.1, 0.02, false}, random)};
  const std::vector<std::vector<double>> test{synthetic::draw(Series{200, 0.3, 0.12, 0.02, false}, random)};
  const Comparison row = compare(base, test);
  EXPECT_TRUE(row.within_launches);
  EXPECT_EQ(row.verdict, Verdict::kSlower);
  EXPECT_EQ(verdict_words(row), "slower within these launches");
  EXPECT_FALSE(row.is_regression());
  EXPECT_LT(row.ratio_interval->lower, 1.2);
  EXPECT_GT(row.ratio_interval->upper, 1.2);
}

TEST(CompareTest, within_one_launch_equal_series_are_told_apart_5_times_in_100) {
  Generator random(91);
  int differs = 0;
  for (int i = 0; i < 500; ++i) {
    const std::vector<std::vector<double>> base{synthetic::draw(Series{200, 0.5, 0.1, 0.03, false}, random)};
    const std::vector<std::vector<double>> test{synthetic::draw(Series{200, 0.5, 0.1, 0.03, false}, random)};
    const Verdict verdict = compare(base, test).verdict;
    differs += verdict == Verdict::kSlower || verdict == Verdict::kFaster ? 1 : 0;
  }
  EXPECT_LE(differs, 35);
  EXPECT_GE(differs, 5);
}

TEST(CompareTest, an_unsettled_single_launch_is_not_enough_data) {
  Generator random(92);
  std::vector<std::vector<double>> base{synthetic::draw(Series{200, 0, 0.1, 0.01, false}, random)};
  const std::vector<std::vector<double>> test = base;
  for (size_t i = 100; i < 200; ++i) base[0][i] *= 1.3;
  const Comparison row = compare(base, test);
  EXPECT_EQ(row.verdict, Verdict::kNotEnoughData);
  EXPECT_EQ(row.reason, "base: level shift at step 100");
  EXPECT_EQ(verdict_words(row), "not enough data (base: level shift at step 100)");
  EXPECT_FALSE(row.p);
  EXPECT_FALSE(row.ratio_interval);
}

TEST(CompareTest, nothing_measured_is_not_enough_data) {
  const auto some = constant_launches({0.1, 0.1});
  EXPECT_EQ(verdict_words(compare({}, some)), "not enough data (base: no steps)");
  EXPECT_EQ(verdict_words(compare(some, {{}, {}})), "not enough data (test: no steps)");
  const Comparison few = compare({{0.1, 0.1, 0.1}}, {{0.2, 0.2, 0.2}});
  EXPECT_EQ(few.verdict, Verdict::kNotEnoughData);
  EXPECT_NEAR(few.change_percent(), -100, 1e-9);
}

TEST(CompareTest, threshold_is_for_the_estimate_and_not_for_the_verdict) {
  const auto base = constant_launches({0.1, 0.1001, 0.0999});
  const auto test = constant_launches({0.101, 0.1011, 0.1009});
  const Comparison row = compare(base, test, {.threshold = 0.02});
  EXPECT_EQ(row.verdict, Verdict::kSlower);
  EXPECT_FALSE(row.is_regression());
  EXPECT_TRUE(compare(base, test, {.threshold = 0.005}).is_regression());
  EXPECT_EQ(compare(test, base).verdict, Verdict::kFaster);
  EXPECT_FALSE(compare(test, base, {.threshold = 0}).is_regression());
}

TEST(CompareTest, interval_of_the_change_turns_with_the_sign) {
  Generator random(93);
  const Comparison row = compare(synthetic::draw(Launches{}, random), synthetic::draw(Launches{}, random));
  const Interval change = *row.change_percent_interval();
  EXPECT_NEAR(change.lower, -100 * (row.ratio_interval->upper - 1), 1e-9);
  EXPECT_LT(change.lower, row.change_percent());
  EXPECT_GT(change.upper, row.change_percent());
}

TEST(CompareTest, other_quantiles_can_be_compared) {
  Generator random(94);
  const auto base = synthetic::draw(Launches{}, random);
  auto test = base;
  for (auto& launch : test) {
    for (size_t i = 0; i < launch.size(); i += 10) launch[i] *= 2;
  }
  EXPECT_EQ(compare(base, test, {.quantile = 0.95}).verdict, Verdict::kSlower);
  EXPECT_LT(std::abs(compare(base, test).change_percent()), 2);
}

TEST(CompareTest, means_see_what_no_percentile_of_most_steps_does) {
  std::vector<double> base, test;
  for (int step = 0; step < 400; ++step) {
    const double usual_s = 0.001 * (1 + 0.01 * ((7 * step) % 11));
    base.push_back(step % 20 == 0 ? 0.5 : usual_s);
    test.push_back(usual_s);
  }
  EXPECT_EQ(compare({base}, {test}, {.quantile = 0.75}).verdict, Verdict::kSame);
  const Comparison means = compare({base}, {test}, {.quantile = {}});
  EXPECT_EQ(means.verdict, Verdict::kFaster);
  EXPECT_NEAR(means.base_s, 0.026, 0.001);
  EXPECT_GT(means.change_percent(), 90);
  // The launch is the unit of means, too.
  EXPECT_EQ(compare({base, base, base}, {test, test, test}, {.quantile = {}}).verdict, Verdict::kFaster);
}

/// The example of Holm's procedure: smallest times 4, next times 3, and never falling.
TEST(HolmTest, corrects_step_by_step) {
  EXPECT_THAT(holm(std::vector{0.01, 0.04, 0.03, 0.005}),
              testing::ElementsAre(testing::DoubleEq(0.03), testing::DoubleEq(0.06), testing::DoubleEq(0.06),
                                   testing::DoubleEq(0.02)));
  EXPECT_THAT(holm(std::vector{0.9, 0.8}), testing::ElementsAre(1.0, 1.0));
  EXPECT_TRUE(holm({}).empty());
}

TEST(HolmTest, rows_without_p_do_not_count) {
  Comparison certain;
  certain.p = 0.001;
  certain.verdict = Verdict::kSlower;
  Comparison doubtful = certain;
  doubtful.p = 0.04;
  std::vector<Comparison> rows{doubtful, Comparison{}, certain};
  correct_for_rows(rows);
  EXPECT_EQ(rows[0].verdict, Verdict::kSlower);
  rows.push_back(doubtful);
  rows[0].verdict = Verdict::kSlower;
  correct_for_rows(rows);
  EXPECT_EQ(rows[0].verdict, Verdict::kSame);
  EXPECT_EQ(rows[1].verdict, Verdict::kNotEnoughData);
  EXPECT_EQ(rows[2].verdict, Verdict::kSlower);
}

}  // namespace
}  // namespace lockstep::measure
