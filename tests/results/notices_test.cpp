#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/results/tables/tables.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(NoticesTest, lines_break_between_words_and_go_on_indented) {
  EXPECT_EQ(wrapped("* a: ", "one two three", 2, 12), "* a: one two\n  three\n");
  EXPECT_EQ(wrapped("* a: ", "", 2, 12), "* a: \n");
}

TEST(NoticesTest, a_word_longer_than_a_line_stays_whole) {
  EXPECT_EQ(wrapped("", "a looooooooong b", 1, 6), "a\n looooooooong\n b\n");
}

TEST(NoticesTest, a_warning_comes_with_its_advice_and_a_loud_one_stands_out) {
  EXPECT_EQ(warning_text({"Hot.", "Cool it.", false}), "Warning: Hot.\n         -> Cool it.\n");
  EXPECT_EQ(warning_text({"Hot.", "", false}), "Warning: Hot.\n");
  const std::string line(100, '!');
  EXPECT_EQ(warning_text({"Hot.", "Cool it.", true}),
            line + "\nWARNING: Hot.\n         -> Cool it.\n" + line + "\n");
}

std::vector<std::string> texts_of(const std::vector<Warning>& warnings) {
  std::vector<std::string> texts;
  for (const Warning& warning : warnings) texts.push_back(warning.text);
  return texts;
}

TEST(NoticesTest, the_processors_of_sixteen_ranks_are_shown) {
  RunRecord record = small_record();
  record.binding = "core";
  record.rank_cpus.assign(16, "7");
  EXPECT_THAT(header_text(record), testing::Not(HasSubstr("|...")));
  record.rank_cpus.emplace_back("8");
  EXPECT_THAT(header_text(record), HasSubstr("7|7|..."));
}

TEST(NoticesTest, rows_that_share_a_warning_are_told_apart_by_what_was_swept) {
  RunRecord record;
  record.strategies = {"ddp"};
  record.runs.push_back(plain_run("single", 1));
  for (const double bucket_mb : {1.0, 5.0, 25.0}) {
    results::Run& run = record.runs.emplace_back(plain_run("ddp", 2));
    run.bucket_mb = bucket_mb;
    run.warnings = {{"Hot.", "Cool it.", false}};
  }
  EXPECT_THAT(
      texts_of(warnings_of_rows(record)),
      ElementsAre("resnet50 ddp at 2 ranks, buckets of 1 MiB: Hot. Likewise: resnet50 ddp at 2 ranks, "
                  "buckets of 5 MiB; resnet50 ddp at 2 ranks, buckets of 25 MiB."));
}

TEST(NoticesTest, many_rows_that_share_a_warning_are_counted) {
  RunRecord record;
  for (int ranks = 1; ranks <= 9; ++ranks) {
    record.runs.push_back(plain_run("ddp", ranks));
    record.runs.back().warnings = {{"Hot.", "Cool it.", false}};
  }
  EXPECT_THAT(texts_of(warnings_of_rows(record)), ElementsAre(EndsWith("at 5 ranks; and 4 more rows.")));
}

TEST(NoticesTest, launches_that_share_a_warning_are_counted) {
  RunRecord record;
  for (int launch = 0; launch < 5; ++launch) {
    RunRecord one;
    one.warnings = {{launch < 3 ? "Load 1." : "Load 2.", "Wait.", false}};
    one.runs.push_back(measured_run("ddp", 2, 40, 0.01));
    if (launch > 0)
      one.runs[0].warnings = {{fmt::format("Outliers, {}.", launch), "Trust the median.", false}};
    if (launch == 0) {
      record = one;
    } else {
      add_launch(record, one);
    }
  }
  EXPECT_THAT(texts_of(warnings_of_record(record)), ElementsAre("Load 1. (in 5 of 5 launches)"));
  EXPECT_THAT(texts_of(warnings_of_rows(record)),
              ElementsAre("resnet50 ddp at 2 ranks: Outliers, 1. (in 4 of 5 launches)"));
  // A second row, which had it twice.
  results::Run other = measured_run("sharded", 2, 40, 0.01);
  other.launch_steps = {10, 10, 10, 5, 5};
  other.warnings = {{"Outliers, 9.", "Trust the median.", false, 2}};
  record.runs.push_back(other);
  EXPECT_THAT(texts_of(warnings_of_rows(record)),
              ElementsAre("resnet50 ddp at 2 ranks: Outliers, 1. (in 4 of 5 launches) Likewise: "
                          "resnet50 sharded at 2 ranks in 2 of 5 launches."));
}

TEST(NoticesTest, every_host_keeps_its_warning) {
  RunRecord record;
  record.machines.resize(2);
  record.launches_started_at = {"a", "b", "c"};
  record.warnings = {{"node1: Powersave.", "Change it."},
                     {"node2: Powersave.", "Change it."},
                     {"node2: Powersave.", "Change it."}};
  EXPECT_THAT(texts_of(warnings_of_record(record)), ElementsAre("node1: Powersave. (in 1 of 3 launches)",
                                                                "node2: Powersave. (in 2 of 3 launches)"));
}

TEST(NoticesTest, a_baseline_slower_than_ranks_that_share_the_machine_is_doubted) {
  RunRecord record;
  record.runs = {measured_run("single", 1, 40, 0.012), measured_run("independent", 2, 40, 0.010)};
  assign_baselines(record);
  EXPECT_THAT(texts_of(warnings_of_rows(record)),
              ElementsAre(HasSubstr("independent at 2 ranks: It came out 120 % efficient")));
  record.runs[0].images_per_s *= 1.15;
  assign_baselines(record);
  EXPECT_THAT(warnings_of_rows(record), IsEmpty());
}

TEST(NoticesTest, the_header_has_every_bucket_size_of_a_sweep) {
  RunRecord record;
  EXPECT_THAT(header_text(record), HasSubstr("* Maximum bucket size: 25 MiB\n"));
  record.bucket_sizes_mb = {1, 0.5, 25};
  EXPECT_THAT(header_text(record), HasSubstr("* Maximum bucket size: 1, 0.5, 25 MiB\n"));
}

TEST(NoticesTest, hosts_that_are_not_described_are_counted) {
  RunRecord record;
  record.machines.resize(5);
  const auto others = [&](size_t most) {
    for (const Fact& fact : facts_of(record, most)) {
      if (fact.name == "Other hosts") return fact.value;
    }
    return std::string();
  };
  EXPECT_EQ(others(2), "3 more");
  EXPECT_EQ(others(5), "");
}

}  // namespace
}  // namespace lockstep::results
