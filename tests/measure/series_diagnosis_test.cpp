#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/stopping.h"

#include "measure/synthetic.h"

namespace lockstep::measure {
namespace {

using synthetic::Generator;
using synthetic::Series;
using testing::HasSubstr;

constexpr int kSeries = 200;

TEST(SeriesDiagnosisTest, settled_series_are_left_alone) {
  for (const double lag_one : {0.0, 0.5, 0.7}) {
    for (const size_t steps : {20, 60, 200}) {
      Generator random(50);
      int named = 0;
      for (int i = 0; i < 500; ++i) {
        named += diagnose(synthetic::draw(Series{steps, lag_one, 0.1, 0.05, true}, random))
                         .unsettled_reason()
                         .empty()
                     ? 0
                     : 1;
      }
      EXPECT_LE(named, 8) << lag_one << " " << steps;
    }
  }
}

TEST(SeriesDiagnosisTest, a_level_shift_is_named_with_its_step_and_levels) {
  Generator random(51);
  int right = 0;
  for (int i = 0; i < kSeries; ++i) {
    std::vector<double> step_s = synthetic::draw(Series{200, 0.3, 0.1, 0.02, false}, random);
    for (size_t k = 120; k < step_s.size(); ++k) step_s[k] *= 1.1;
    const SeriesDiagnosis found = diagnose(step_s);
    if (!found.level_shift || found.trend) continue;
    const double off = std::abs(static_cast<double>(found.level_shift->step) - 120);
    right += off <= 2 && std::abs(found.level_shift->change_share() - 0.1) < 0.02 ? 1 : 0;
  }
  EXPECT_GE(right, kSeries * 97 / 100);
}

TEST(SeriesDiagnosisTest, a_passing_slow_phase_is_named) {
  Generator random(52);
  int right = 0;
  for (int i = 0; i < kSeries; ++i) {
    std::vector<double> step_s = synthetic::draw(Series{400, 0, 0.1, 0.02, false}, random);
    for (size_t k = 150; k < 250; ++k) step_s[k] *= 1.08;
    const SeriesDiagnosis found = diagnose(step_s);
    if (!found.level_shift) continue;
    const auto step = static_cast<double>(found.level_shift->step);
    right += std::min(std::abs(step - 150), std::abs(step - 250)) <= 2 ? 1 : 0;
  }
  EXPECT_GE(right, kSeries * 95 / 100);
}

TEST(SeriesDiagnosisTest, a_trend_is_named_with_its_size) {
  Generator random(53);
  int right = 0;
  for (int i = 0; i < kSeries; ++i) {
    std::vector<double> step_s = synthetic::draw(Series{200, 0.3, 0.1, 0.02, false}, random);
    for (size_t k = 0; k < step_s.size(); ++k) step_s[k] *= 1 + 0.1 * static_cast<double>(k) / 199;
    const SeriesDiagnosis found = diagnose(step_s);
    right += found.trend && std::abs(*found.trend - 0.095) < 0.03 ? 1 : 0;
  }
  EXPECT_GE(right, kSeries * 97 / 100);
}

TEST(SeriesDiagnosisTest, a_time_falls_by_less_than_all_of_it) {
  std::vector<double> step_s;
  for (int k = 0; k < 120; ++k) step_s.push_back(0.0006 + 0.02 * (119 - k) / 119);
  const SeriesDiagnosis found = diagnose(step_s);
  ASSERT_TRUE(found.trend);
  EXPECT_LT(*found.trend, -0.85);
  EXPECT_GT(*found.trend, -1);
}

TEST(SeriesDiagnosisTest, a_change_too_small_to_matter_is_left_alone) {
  Generator random(54);
  std::vector<double> step_s = synthetic::draw(Series{1000, 0, 0.1, 0.0005, false}, random);
  for (size_t k = 500; k < step_s.size(); ++k) step_s[k] *= 1.003;
  EXPECT_EQ(diagnose(step_s).unsettled_reason(), "");
}

TEST(SeriesDiagnosisTest, outliers_are_counted_and_do_not_make_a_trend) {
  Generator random(55);
  std::vector<double> step_s = synthetic::draw(Series{200, 0, 0.1, 0.02, false}, random);
  for (const size_t step : {20, 90, 91, 170}) step_s[step] = 0.25;
  step_s[133] = 0.42;
  const SeriesDiagnosis found = diagnose(step_s);
  EXPECT_EQ(found.outliers.count, 5U);
  EXPECT_DOUBLE_EQ(found.outliers.share, 5.0 / 200);
  EXPECT_NEAR(found.outliers.largest_ratio, 4.2, 0.1);
  EXPECT_EQ(found.unsettled_reason(), "");
  EXPECT_THAT(found.text(), HasSubstr("5 of 200 steps lie far from the rest, the slowest (step 133) at 4.2"));
}

TEST(SeriesDiagnosisTest, outliers_are_judged_by_their_own_level) {
  Generator random(56);
  std::vector<double> step_s = synthetic::draw(Series{200, 0, 0.1, 0.01, false}, random);
  for (size_t k = 100; k < step_s.size(); ++k) step_s[k] *= 2;
  const SeriesDiagnosis found = diagnose(step_s);
  ASSERT_TRUE(found.level_shift);
  EXPECT_EQ(found.level_shift->step, 100U);
  EXPECT_EQ(found.outliers.count, 0U);
  EXPECT_THAT(found.text(), HasSubstr("level shift at step 100: from"));
}

TEST(SeriesDiagnosisTest, degenerate_series_are_no_trouble) {
  EXPECT_EQ(diagnose(std::vector<double>{}).unsettled_reason(), "");
  EXPECT_EQ(diagnose(std::vector<double>{0.1}).unsettled_reason(), "");
  EXPECT_EQ(diagnose(std::vector<double>(500, 0.1)).unsettled_reason(), "");
  EXPECT_EQ(diagnose(std::vector<double>(500, 0.0)).unsettled_reason(), "");
  std::vector<double> coarse(200, 0.1);
  for (size_t k = 0; k < coarse.size(); k += 3) coarse[k] = 0.2;
  EXPECT_EQ(diagnose(coarse).unsettled_reason(), "");
}

TEST(SeriesDiagnosisTest, a_time_that_is_no_number_is_refused_with_its_step) {
  std::vector<double> step_s(50, 0.1);
  step_s[7] = std::numeric_limits<double>::quiet_NaN();
  try {
    diagnose(step_s);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 7 of 50"));
  }
  step_s[7] = -1;
  EXPECT_THROW(diagnose(step_s), Error);
}

}  // namespace
}  // namespace lockstep::measure
