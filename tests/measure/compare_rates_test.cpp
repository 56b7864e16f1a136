#include <gtest/gtest.h>

#include "lockstep/measure/compare.h"

#include "measure/synthetic.h"

namespace lockstep::measure {
namespace {

using synthetic::Generator;
using synthetic::Launches;

constexpr int kPairs = 1000;

TEST(CompareRatesTest, two_runs_of_the_same_are_hardly_ever_told_apart) {
  for (const bool paired : {false, true}) {
    Generator random(40);
    int differs = 0;
    int regressions = 0;
    for (int i = 0; i < kPairs; ++i) {
      const auto base = synthetic::draw(Launches{}, random);
      const auto test = synthetic::draw(Launches{}, random);
      const Comparison row = compare(base, test, {.paired = paired});
      differs += row.verdict != Verdict::kSame ? 1 : 0;
      regressions += row.is_regression() ? 1 : 0;
    }
    EXPECT_LE(differs, kPairs * 5 / 100) << paired;
    EXPECT_LE(regressions, kPairs * 5 / 1000) << paired;
  }
}

TEST(CompareRatesTest, a_slow_down_of_5_percent_is_found) {
  for (const bool paired : {false, true}) {
    Generator random(41);
    int found = 0;
    double held = 0;
    for (int i = 0; i < kPairs; ++i) {
      const auto base = synthetic::draw(Launches{}, random);
      const auto test = synthetic::draw(Launches{.median_s = 0.105}, random);
      const Comparison row = compare(base, test, {.paired = paired});
      found += row.is_regression() ? 1 : 0;
      held += row.ratio_interval->lower <= 1.05 && 1.05 <= row.ratio_interval->upper ? 1 : 0;
    }
    EXPECT_GE(found, kPairs * 95 / 100) << paired;
    EXPECT_GE(held, kPairs * 93 / 100) << paired;
  }
}

TEST(CompareRatesTest, a_drift_shared_by_pairs_hides_a_change_only_from_the_unpaired) {
  Generator random(42);
  int paired_found = 0;
  int unpaired_found = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<std::vector<double>> base;
    std::vector<std::vector<double>> test;
    for (int launch = 0; launch < 6; ++launch) {
      const double level = 0.1 * (1 + 0.1 * launch);
      const Launches one{.launches = 1, .median_s = level, .launch_noise = 0.003};
      base.push_back(synthetic::draw(one, random)[0]);
      test.push_back(synthetic::draw(Launches{.launches = 1, .median_s = 1.05 * level, .launch_noise = 0.003},
                                     random)[0]);
    }
    paired_found += compare(base, test, {.paired = true}).is_regression() ? 1 : 0;
    unpaired_found += compare(base, test).is_regression() ? 1 : 0;
  }
  EXPECT_GE(paired_found, 195);
  EXPECT_LE(unpaired_found, 20);
}

TEST(CompareRatesTest, two_launches_against_many_cry_wolf_no_more_than_as_many_against_as_many) {
  for (const size_t many : {4, 10, 20}) {
    Generator random(44);
    int differs = 0;
    for (int i = 0; i < kPairs; ++i) {
      const Comparison row = compare(synthetic::draw(Launches{.launches = 2}, random),
                                     synthetic::draw(Launches{.launches = many}, random));
      differs += row.verdict != Verdict::kSame ? 1 : 0;
    }
    EXPECT_LE(differs, kPairs * 6 / 100) << many;
  }
}

/// Ten rows without any change, told apart one by one, cry wolf in two comparisons of five; corrected in few.
TEST(CompareRatesTest, many_rows_together_cry_wolf_no_more_than_one) {
  Generator random(43);
  int corrected_alarms = 0;
  int single_alarms = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<Comparison> rows;
    for (int row = 0; row < 10; ++row) {
      rows.push_back(compare(synthetic::draw(Launches{}, random), synthetic::draw(Launches{}, random)));
    }
    const auto differs = [](const Comparison& row) { return row.verdict != Verdict::kSame; };
    single_alarms += std::any_of(rows.begin(), rows.end(), differs) ? 1 : 0;
    correct_for_rows(rows);
    corrected_alarms += std::any_of(rows.begin(), rows.end(), differs) ? 1 : 0;
  }
  EXPECT_GE(single_alarms, 40);
  EXPECT_LE(corrected_alarms, 14);
}

}  // namespace
}  // namespace lockstep::measure
