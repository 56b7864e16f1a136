// How often a comparison of two files errs, from records to verdicts.

#include <gtest/gtest.h>

#include "lockstep/results/tables/diff.h"

#include "measure/synthetic.h"

namespace lockstep::results {
namespace {

using measure::synthetic::Generator;
using measure::synthetic::Launches;

constexpr int kPairs = 1000;

/// `rows` rows of ddp at 2, 3, ... ranks: 5 launches of 50 steps, 2 % noise of a step, 1 % of a launch.
RunRecord rate_record(int rows, const Launches& plan, Generator& random) {
  RunRecord record;
  for (int row = 0; row < rows; ++row) {
    Run run;
    run.model = "resnet50";
    run.batch_per_rank = 8;
    run.ranks = 2 + row;
    run.strategy = "ddp";
    for (const std::vector<double>& launch : measure::synthetic::draw(plan, random)) {
      for (const double step_s : launch) run.samples.push_back({step_s, 0.5 * step_s});
      run.launch_steps.push_back(static_cast<int>(launch.size()));
    }
    record.runs.push_back(std::move(run));
  }
  return record;
}

bool any_differs(const Diff& diff) {
  for (const DiffRow& row : diff.rows) {
    if (row.verdict.verdict != measure::Verdict::kSame) return true;
  }
  return false;
}

TEST(DiffRatesTest, two_files_of_the_same_are_hardly_ever_told_apart) {
  struct Case {
    int rows;
    DiffOptions options;
  };
  const Case cases[] = {{1, {}}, {1, {.paired = true}}, {1, {.decisive = 95}}, {6, {}}};
  for (const auto& [rows, options] : cases) {
    Generator random(50);
    int differ = 0;
    int regressed = 0;
    for (int i = 0; i < kPairs; ++i) {
      const RunRecord base = rate_record(rows, {}, random);
      const RunRecord test = rate_record(rows, {}, random);
      const Diff diff = compare_records(base, test, options);
      differ += any_differs(diff) ? 1 : 0;
      regressed += diff.regressions() > 0 ? 1 : 0;
    }
    EXPECT_LE(differ, kPairs * 5 / 100) << rows << " rows, p" << options.decisive;
    EXPECT_LE(regressed, kPairs * 5 / 1000) << rows << " rows, p" << options.decisive;
  }
}

TEST(DiffRatesTest, a_slow_down_of_5_percent_is_found) {
  for (const int rows : {1, 6}) {
    Generator random(51);
    int found = 0;
    for (int i = 0; i < kPairs; ++i) {
      const RunRecord base = rate_record(rows, {}, random);
      const RunRecord test = rate_record(rows, {.median_s = 0.105}, random);
      const Diff diff = compare_records(base, test);
      found += diff.rows.back().verdict.is_regression() ? 1 : 0;
    }
    EXPECT_GE(found, kPairs * 95 / 100) << rows;
  }
}

}  // namespace
}  // namespace lockstep::results
