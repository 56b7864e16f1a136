#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/tables.h"

#include "golden/golden.h"
#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::AllOf;
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
  const std::string text = to_text(scaling_tables(swept_record()));
  EXPECT_THAT(text, HasSubstr("Baseline: 1 rank without a strategy (no ddp, fp32), 15.97 images/s"));
  EXPECT_THAT(text, HasSubstr("Baseline: 1 rank without a strategy (no ddp, bf16), 15.97 images/s"));
  EXPECT_THAT(text, HasSubstr("ranks  hosts  strategy  precision  images/s"));
  EXPECT_THAT(text, Not(HasSubstr("backend")));
}

TEST(ScalingTableTest, the_baseline_is_the_row_that_speed_ups_are_relative_to) {
  RunRecord record;
  record.strategies = {"ddp"};
  record.baseline_strategy = "ddp";
  record.baseline_ranks = 2;
  record.runs = {measured_run("single", 1, 4, 0.5), measured_run("ddp", 2, 4, 0.55),
                 measured_run("ddp", 4, 4, 0.575)};
  assign_baselines(record);
  EXPECT_THAT(to_text(scaling_tables(record)), AllOf(HasSubstr("Baseline: 2 ranks with ddp, 29.03 images/s"),
                                                     Not(HasSubstr("Baseline: 1 rank"))));
  record.runs.erase(record.runs.begin());
  assign_baselines(record);
  EXPECT_THAT(to_text(scaling_tables(record)), Not(HasSubstr("No baseline")));
  record.baseline_strategy = "bsp";
  assign_baselines(record);
  EXPECT_THAT(to_text(scaling_tables(record)), HasSubstr("No baseline: bsp was not measured."));
}

TEST(ScalingTableTest, phases_of_a_publication_are_not_called_lockstep_s_own) {
  RunRecord record;
  record.runs = {measured_run("ddp", 2, 4, 0.5)};
  record.runs[0].breakdown = breakdown_of(2, 0.5, 0.01, 0.02);
  EXPECT_THAT(to_text(phases_tables(record)), HasSubstr("a run of its own"));
  record.source = kPublished;
  EXPECT_THAT(to_text(phases_tables(record)), Not(HasSubstr("a run of its own")));
}

// Files of earlier versions hold the name that stands for every strategy.
TEST(ScalingTableTest, a_strategy_is_never_a_control_whatever_the_file_says_was_asked_for) {
  RunRecord record = swept_record();
  const std::string spelled_out = to_text(scaling_tables(record));
  record.strategies = {"all"};
  EXPECT_EQ(to_text(scaling_tables(record)), spelled_out);
}

TEST(ScalingTableTest, controls_are_shown_where_nothing_else_was_measured) {
  RunRecord record = swept_record();
  record.strategies = {"single"};
  std::erase_if(record.runs, [](const auto& run) { return run.strategy == "ddp"; });
  const std::string text = to_text(scaling_tables(record));
  EXPECT_THAT(text, AllOf(HasSubstr("no ddp"), HasSubstr("independent")));
}

TEST(ScalingTableTest, kernels_have_a_column_and_a_baseline_of_their_own_where_they_differ) {
  RunRecord record = swept_record();
  for (auto& run : record.runs) {
    run.kernels = run.precision == "fp32" ? "aten" : "fused";
    run.precision = "fp32";
  }
  assign_baselines(record);
  const std::string text = to_text(scaling_tables(record));
  EXPECT_THAT(text, HasSubstr("(no ddp, aten kernels)"));
  EXPECT_THAT(text, HasSubstr("(no ddp, fused kernels)"));
  EXPECT_THAT(text, HasSubstr("strategy  kernels  images/s"));
}

TEST(ScalingTableTest, a_hundred_columns_hold_it_with_three_settings_swept) {
  RunRecord record = swept_record();
  for (auto& run : record.runs) run.hosts = 1;
  record.runs[1].backend = "mpi";
  record.runs[4].bucket_mb = 12.5;
  const std::string text = to_text(scaling_tables(record));
  EXPECT_THAT(text, HasSubstr("backend  precision  MiB"));
  for (const std::string& line : testing_golden::lines_of(text)) EXPECT_LE(display_width(line), 100u) << line;
}

TEST(ScalingTableTest, without_a_baseline_it_says_so_and_compares_with_nothing) {
  RunRecord record;
  record.runs = {measured_run("ddp", 2, 4, 0.5)};
  assign_baselines(record);
  const std::string text = to_text(scaling_tables(record));
  EXPECT_THAT(text, HasSubstr("No baseline: one rank without a strategy was not measured."));
  EXPECT_THAT(text, HasSubstr("ddp          31.93  short         -           -\n"));
  EXPECT_THAT(text, Not(HasSubstr("independent:")));
}

TEST(ScalingTableTest, a_few_launches_are_shown_as_they_are) {
  RunRecord record;
  record.runs = {measured_run("ddp", 2, 40, 0.5)};
  EXPECT_THAT(to_text(scaling_tables(record)), Not(HasSubstr(" few ")));
  for (const double step_s : {0.4, 0.45, 0.5}) {
    if (step_s > 0.4) {
      EXPECT_THAT(to_text(scaling_tables(record)),
                  AllOf(HasSubstr(" few "), HasSubstr("few: fewer than 4 launches"),
                        HasSubstr("images/s of each launch: ddp at 2 ranks 31.90, 39.88")));
    }
    RunRecord other;
    other.runs = {measured_run("ddp", 2, 40, step_s)};
    add_launch(record, other);
  }
  EXPECT_THAT(to_text(scaling_tables(record)), AllOf(Not(HasSubstr(" few ")), HasSubstr("±")));
}

TEST(ScalingTableTest, the_interval_of_images_per_second_or_why_there_is_none) {
  RunRecord record;
  for (const char* missing :
       {"", "not enough data", "trend", "level shift at step 12", "not settled: warm-up not over"}) {
    record.runs.push_back(measured_run("ddp", static_cast<int>(record.runs.size()) + 1, 4, 0.5));
    record.runs.back().images_per_s = 100;
    record.runs.back().rate_interval = Interval{98, 101, missing};
  }
  const std::string text = to_text(scaling_tables(record));
  for (const char* found :
       {" ±1.5 % ", " short ", " trend ", " shift ", " unsettled ",
        "short: too few independent steps; raise --max-time", "unsettled: warm-up was not\n"})
    EXPECT_THAT(text, HasSubstr(found));
  for (results::Run& run : record.runs) run.rate_interval.reset();
  EXPECT_THAT(to_text(scaling_tables(record)), Not(HasSubstr("95 %"))) << "nothing to say";
}

}  // namespace
}  // namespace lockstep::results
