#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/baseline.h"
#include "lockstep/results/text.h"

#include "golden/golden.h"
#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::HasSubstr;
using testing::Not;

RunRecord swept_record() {
  RunRecord record;
  record.strategies = {"ddp"};
  for (const char* precision : {"fp32", "bf16"}) {
    for (Run run : {measured_run("single", 1, 4, 0.5), measured_run("ddp", 128, 4, 0.625),
                    measured_run("independent", 128, 4, 0.5)}) {
      run.precision = precision;
      run.hosts = run.ranks == 128 ? 16 : 1;
      record.runs.push_back(run);
    }
  }
  assign_baselines(record);
  return record;
}

TEST(ScalingTableTest, every_swept_setting_has_a_column_and_a_baseline_of_its_own) {
  const std::string text = scaling_tables(swept_record());
  EXPECT_THAT(text, HasSubstr("Baseline: 1 rank without a strategy (no ddp, fp32), 15.97 images/s"));
  EXPECT_THAT(text, HasSubstr("Baseline: 1 rank without a strategy (no ddp, bf16), 15.97 images/s"));
  EXPECT_THAT(text, HasSubstr("ranks  hosts  strategy  precision  images/s"));
  EXPECT_THAT(text, Not(HasSubstr("backend")));
}

TEST(ScalingTableTest, a_hundred_columns_hold_it_with_three_settings_swept) {
  RunRecord record = swept_record();
  for (auto& run : record.runs) run.hosts = 1;
  record.runs[1].backend = "mpi";
  record.runs[4].bucket_mb = 12.5;
  const std::string text = scaling_tables(record);
  EXPECT_THAT(text, HasSubstr("backend  precision  bucket"));
  for (const std::string& line : testing_golden::lines_of(text)) EXPECT_LE(line.size(), 100u) << line;
}

TEST(ScalingTableTest, without_a_baseline_it_says_so_and_compares_with_nothing) {
  RunRecord record;
  record.runs = {measured_run("ddp", 2, 4, 0.5)};
  assign_baselines(record);
  const std::string text = scaling_tables(record);
  EXPECT_THAT(text, HasSubstr("No baseline: one rank without a strategy was not measured."));
  EXPECT_THAT(text, HasSubstr("ddp          31.93         -           -\n"));
  EXPECT_THAT(text, Not(HasSubstr("independent")));
}

}  // namespace
}  // namespace lockstep::results
