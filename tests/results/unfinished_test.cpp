// A row that ended before all of it was measured: kept, marked, and compared with nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/diff.h"
#include "lockstep/results/tables/tables.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kReason =
    "rank 1 (host node1, pid 7) was killed by SIGKILL after step 6 of resnet50 ddp 2 ranks";

/// single, ddp at 1 rank and an unfinished ddp at 2.
RunRecord unfinished_record() {
  RunRecord record = small_record();
  record.runs = {measured_run("single", 1, 8, 0.5), measured_run("ddp", 1, 8, 0.5625),
                 measured_run("ddp", 2, 4, 0.625)};
  Run& last = record.runs.back();
  last.unfinished = kReason;
  assign_intervals(last);
  record.incomplete = kReason;
  assign_baselines(record);
  return record;
}

TEST(UnfinishedTest, a_file_with_one_is_read_as_it_was_written) {
  const std::string text = to_json(unfinished_record());
  const RunRecord read = from_json(text, "a.json");
  EXPECT_EQ(read.runs.back().unfinished, kReason);
  EXPECT_EQ(to_json(read), text);
}

TEST(UnfinishedTest, its_steps_may_be_those_of_one_host) {
  RunRecord record = unfinished_record();
  for (auto& step : record.runs.back().samples) step.resize(1);
  for (auto& step : record.runs.back().warmup_samples) step.resize(1);
  EXPECT_EQ(from_json(to_json(record), "a.json").runs.back().samples.front().size(), 1U);
  record.runs.back().unfinished.clear();
  EXPECT_THROW(from_json(to_json(record), "a.json"), Error);
}

TEST(UnfinishedTest, it_may_have_ended_within_warm_up) {
  RunRecord record = unfinished_record();
  record.runs.back().samples.clear();
  record.runs.back().step_s = {};
  record.runs.back().images_per_s = 0;
  const RunRecord read = from_json(to_json(record), "a.json");
  EXPECT_EQ(read.runs.back().warmup_samples.size(), 2U);
  EXPECT_THAT(closing_text(read), HasSubstr("It is unfinished: it ended after 2 steps."));
  EXPECT_THAT(render(read), HasSubstr("ddp (unfinished)         -  unfinished         -"));
}

TEST(UnfinishedTest, tables_mark_it_and_its_end_is_told_once) {
  const RunRecord record = unfinished_record();
  const std::string text = render(record) + closing_text(record);
  EXPECT_THAT(text, HasSubstr("ddp (unfinished)  "));
  EXPECT_THAT(text, HasSubstr("WARNING: resnet50 ddp at 2 ranks: It is unfinished: it ended after 6 steps."));
  EXPECT_EQ(text.find("was killed"), text.rfind("was killed"));
}

TEST(UnfinishedTest, it_has_no_speedup_and_is_the_baseline_of_nothing) {
  RunRecord record = unfinished_record();
  EXPECT_FALSE(record.runs.back().speedup);
  EXPECT_TRUE(record.runs[1].speedup);
  record.runs.front().unfinished = kReason;
  assign_baselines(record);
  EXPECT_FALSE(record.runs[1].speedup);
  EXPECT_EQ(single_of(record, record.runs[1]), nullptr);
}

TEST(UnfinishedTest, diff_leaves_it_out_and_says_so) {
  RunRecord base = unfinished_record(), test = base;
  test.runs.back().unfinished.clear();
  const Diff diff = compare_records(base, test);
  EXPECT_EQ(diff.rows.size(), 2U);
  EXPECT_EQ(diff.unfinished_base.size(), 1U);
  const std::string text = to_text(diff_tables(diff));
  EXPECT_THAT(text,
              HasSubstr("Not compared: resnet50 ddp (unfinished) at 2 ranks, in base: rank 1 (host node1"));
  EXPECT_THAT(text, HasSubstr("Only in test: resnet50 ddp at 2 ranks"));
  base.runs.erase(base.runs.begin(), base.runs.end() - 1);
  try {
    compare_records(base, test);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.advice(), HasSubstr("The base has unfinished rows only"));
  }
}

TEST(UnfinishedTest, a_later_launch_is_not_pooled_with_it) {
  RunRecord record = unfinished_record(), launch = record;
  record.runs.back().unfinished = kNotEnded;
  for (results::Run& run : launch.runs) run.unfinished.clear();
  launch.incomplete.clear();
  add_launch(record, launch);
  ASSERT_EQ(record.runs.size(), 4U);
  EXPECT_EQ(record.runs[2].unfinished, "its run ended without a word");
  EXPECT_EQ(record.runs[2].samples.size(), 4U);
  EXPECT_EQ(record.runs[3].samples.size(), 4U);
  EXPECT_TRUE(record.runs[3].speedup);
  EXPECT_EQ(record.incomplete, "");
}

TEST(UnfinishedTest, pytorchs_own_part_of_the_file_and_its_diff_see_finished_rows_only) {
  const std::string text = to_json(unfinished_record());
  EXPECT_THAT(text.substr(0, text.find("\"lockstep\"")), Not(HasSubstr("\"ranks\": [0, 1]")));
}

TEST(UnfinishedTest, csv_has_its_reason) {
  const std::string csv = to_csv(unfinished_record());
  EXPECT_THAT(csv, HasSubstr(",unfinished,"));
  EXPECT_THAT(csv, HasSubstr(std::string(",\"") + kReason + "\","));
}

}  // namespace
}  // namespace lockstep::results
