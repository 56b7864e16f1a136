#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/tables.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// One rank alone, and `strategy` at `ranks` with a breakdown, beside a control.
RunRecord record_of(double single_s, const std::string& strategy, int ranks, double step_s,
                    double independent_s) {
  RunRecord record = described_record();
  record.warnings.clear();
  record.runs = {measured_run("single", 1, 40, single_s), measured_run(strategy, ranks, 40, step_s)};
  if (independent_s > 0) record.runs.push_back(measured_run("independent", ranks, 40, independent_s));
  record.runs[1].breakdown =
      breakdown_of(ranks, step_s, ranks == 1 ? 0 : step_s / 64, ranks == 1 ? 0 : step_s / 32);
  assign_baselines(record);
  assign_factors(record);
  return record;
}

/// All that is printed and drawn in words.
std::string printed(const RunRecord& record) {
  return render(record) + closing_text(record);
}

TEST(DoubtTest, nothing_speaks_against_what_can_be) {
  for (const RunRecord& record :
       {record_of(0.5, "ddp", 2, 0.55, 0.51), record_of(0.5, "replicated", 1, 0.49, 0)}) {
    for (const results::Run& run : record.runs) EXPECT_THAT(run.doubt + doubt_of_factors(run), IsEmpty());
    EXPECT_THAT(printed(record), AllOf(Not(HasSubstr(" ?")), Not(HasSubstr("nothing else runs"))));
  }
}

TEST(DoubtTest, an_efficiency_above_100_percent_is_never_a_fact) {
  for (const RunRecord& record :
       {record_of(0.9, "ddp", 2, 0.55, 0.51), record_of(0.9, "horovod", 1, 0.5, 0)}) {
    EXPECT_THAT(record.runs[1].doubt,
                AllOf(HasSubstr("% efficient"), HasSubstr("the baseline was disturbed")));
    const std::string text = printed(record);
    EXPECT_THAT(text, AllOf(HasSubstr(" % ?"), HasSubstr("Do not trust what is marked with ?")));
    // The summary has the rate alone.
    const std::string summary = text.substr(text.find("\nSummary\n"));
    EXPECT_THAT(summary.substr(0, summary.find("WARNING")),
                AllOf(HasSubstr("images per second."), Not(HasSubstr("so ")), Not(HasSubstr("times one"))));
    EXPECT_TRUE(warnings_of_rows(record).front().loud);
  }
}

TEST(DoubtTest, an_efficiency_above_100_percent_within_its_interval_is_one_of_100_percent) {
  RunRecord record = record_of(0.5, "ddp", 2, 0.48, 0);
  record.runs[0].rate_interval = Interval{10, 30, ""};
  assign_baselines(record);
  EXPECT_THAT(record.runs[1].doubt, IsEmpty());
  EXPECT_THAT(to_text(explanation({{{"", record}}, {}})),
              AllOf(HasSubstr("100 % efficient\nwithin its uncertainty"), Not(HasSubstr("times one"))));
  // No interval excuses more than 120 %.
  record.runs[1].images_per_s *= 1.2;
  assign_baselines(record);
  EXPECT_THAT(record.runs[1].doubt, HasSubstr("It came out 125 % efficient"));
}

TEST(DoubtTest, an_efficiency_above_100_percent_without_an_interval_is_given_as_it_is) {
  RunRecord record = record_of(0.5, "ddp", 2, 0.49, 0);
  record.runs[0].rate_interval.reset();
  assign_baselines(record);
  EXPECT_THAT(to_text(explanation({{{"", record}}, {}})),
              AllOf(HasSubstr("102 % efficient"), Not(HasSubstr("uncertainty"))));
}

TEST(DoubtTest, a_gain_beside_a_baseline_that_came_out_the_same_twice_is_the_strategys_own) {
  RunRecord record = record_of(0.5, "replicated", 1, 0.46, 0);
  EXPECT_THAT(record.runs[1].doubt, HasSubstr("the baseline was disturbed"));
  assign_again(record.runs[0], std::vector<double>(40, 0.501));
  assign_baselines(record);
  EXPECT_THAT(record.runs[1].doubt, IsEmpty());
  EXPECT_THAT(to_text(explanation({{{"", record}}, {}})), HasSubstr("at least 100 %\nefficient"));
  record = record_of(0.5, "replicated", 2, 0.46, 0.5);
  assign_again(record.runs[0], std::vector<double>(40, 0.501));
  assign_baselines(record);
  EXPECT_THAT(record.runs[1].doubt, IsEmpty());
  // No strategy gains as much as that.
  assign_again(record.runs[0], std::vector<double>(40, 0.501));
  record.runs[1].images_per_s *= 1.2;
  assign_baselines(record);
  EXPECT_THAT(record.runs[1].doubt, HasSubstr("It came out 130 % efficient"));
}

TEST(DoubtTest, a_baseline_that_was_faster_at_its_second_time_explains_as_much_above_100_percent) {
  RunRecord record = record_of(0.5, "replicated", 2, 0.465, 0);
  assign_again(record.runs[0], std::vector<double>(40, 0.47));
  assign_baselines(record);
  EXPECT_TRUE(drifted(record.runs[0]));
  EXPECT_THAT(record.runs[1].doubt, IsEmpty());
  // No more than that.
  record.runs[1].images_per_s *= 1.08;
  assign_baselines(record);
  EXPECT_THAT(record.runs[1].doubt, HasSubstr("It came out 116 % efficient"));
}

TEST(DoubtTest, controls_alone_are_doubted_too) {
  RunRecord record = record_of(0.9, "ddp", 2, 0.55, 0.51);
  record.runs.erase(record.runs.begin() + 1);
  record.strategies = {"single"};
  assign_baselines(record);
  const std::string text = printed(record);
  EXPECT_THAT(text, AllOf(HasSubstr("independent at 2 ranks: It came out 176 % efficient"),
                          Not(HasSubstr("so 176 % efficient"))));
}

TEST(DoubtTest, a_strategy_is_not_faster_than_ranks_without_one) {
  const RunRecord record = record_of(0.45, "replicated", 2, 0.5, 0.9);
  EXPECT_THAT(record.runs[1].doubt, HasSubstr("80 % faster than as many ranks that do not communicate"));
  EXPECT_THAT(record.runs[2].doubt, IsEmpty());
}

TEST(DoubtTest, an_impossible_factor_leaves_the_efficiency_alone) {
  RunRecord record = record_of(0.5, "ddp", 2, 0.51, 0.51);
  record.runs[1].breakdown = breakdown_of(2, 0.51, 0.1, 0.1);
  assign_factors(record);
  EXPECT_THAT(record.runs[1].doubt, IsEmpty());
  EXPECT_THAT(doubt_of_factors(record.runs[1]), HasSubstr("Its factor 'strategy' came out 165 %"));
  const std::string text = printed(record);
  EXPECT_THAT(text,
              AllOf(HasSubstr("so 98 % efficient"), HasSubstr("164.5 ±0.8 ?"), Not(HasSubstr("98.0 ?"))));
  const std::string summary = text.substr(text.find("\nSummary\n"));
  EXPECT_THAT(summary.substr(0, summary.find("WARNING")), Not(HasSubstr("165")));
}

TEST(DoubtTest, a_baseline_that_changed_meanwhile_is_said_in_the_table) {
  RunRecord record = record_of(0.5, "ddp", 2, 0.55, 0.51);
  assign_again(record.runs[0], std::vector<double>(40, 0.505));
  assign_baselines(record);
  EXPECT_FALSE(drifted(record.runs[0]));
  EXPECT_THAT(to_text(scaling_tables(record)),
              AllOf(HasSubstr("15.97 images/s, and 15.84 after the last row; 1"), Not(HasSubstr("drifted"))));
  for (const auto& [step_s, words] : {std::pair{0.47, "+7 %"}, {0.25, "+100 %"}, {0.9, "-44 %"}}) {
    assign_again(record.runs[0], std::vector<double>(40, step_s));
    assign_baselines(record);
    EXPECT_TRUE(drifted(record.runs[0])) << step_s;
    EXPECT_THAT(to_text(scaling_tables(record)), HasSubstr(fmt::format("after the last row ({}:", words)));
    EXPECT_EQ(record.runs[1].doubt.empty(), step_s == 0.47);
    // A file keeps what was found.
    EXPECT_EQ(from_json(to_json(record), "a.json").runs[1].doubt, record.runs[1].doubt);
  }
  EXPECT_THAT(record.runs[1].doubt, HasSubstr("Its baseline was 44 % slower when it was measured again"));
}

TEST(DoubtTest, old_files_and_publications_are_read_as_before) {
  RunRecord record = record_of(0.9, "ddp", 2, 0.55, 0.51);
  std::string text = to_json(record);
  // A file from before there were doubts.
  for (size_t at = text.find("\"doubt\""); at != std::string::npos; at = text.find("\"doubt\""))
    text.replace(at, 7, "\"other\"");
  EXPECT_EQ(from_json(text, "a.json").runs[1].doubt, record.runs[1].doubt);
  record.source = kPublished;
  assign_doubts(record);
  EXPECT_THAT(record.runs[1].doubt, IsEmpty());
}

TEST(DoubtTest, a_row_without_a_rate_shows_none) {
  RunRecord record = described_record();
  record.runs = {plain_run("single", 1), plain_run("ddp", 2)};
  for (results::Run& run : record.runs) run.unfinished = "interrupted (Ctrl-C)";
  assign_baselines(record);
  for (const std::string& style : styles().names()) {
    EXPECT_THAT(render(record, {.style = style}), AllOf(Not(HasSubstr(" 0 images")), Not(HasSubstr("0.00"))))
        << style;
  }
  EXPECT_THAT(render(record), HasSubstr("No baseline: one rank without a strategy was not measured."));
}

TEST(DoubtTest, costs_that_exceed_what_was_lost_are_a_disturbance) {
  // 85 % efficient, beside ranks that were 71 % efficient without communication.
  RunRecord record = record_of(0.5, "ddp", 2, 0.588, 0.704);
  assign_again(record.runs[0], std::vector<double>(40, 0.501));
  assign_baselines(record);
  assign_factors(record);
  EXPECT_THAT(record.runs[1].doubt, HasSubstr("20 % faster than as many ranks that do not communicate"));
  const std::string text = to_text(explanation({{{"", record}}, {}}));
  EXPECT_THAT(text, AllOf(HasSubstr("disturbed: measure again with"), Not(HasSubstr("Costs"))));
  // The page has it, too, and a row beside it that is in no doubt has none.
  EXPECT_THAT(disturbed_rows(record), testing::ElementsAre(0, 1, 2));
  RunRecord more = record;
  more.runs.push_back(measured_run("ddp", 4, 40, 0.6));
  assign_baselines(more);
  EXPECT_THAT(disturbed_rows(more), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(disturbed_rows(record_of(0.5, "ddp", 2, 0.55, 0.51)), IsEmpty());
}

TEST(DoubtTest, costs_beside_a_small_gain_are_together_what_was_lost) {
  RunRecord record = record_of(0.5, "ddp", 2, 0.588, 0.6);
  record.runs[1].breakdown.reset();
  assign_factors(record);
  EXPECT_THAT(record.runs[1].doubt, IsEmpty());
  EXPECT_THAT(to_text(explanation({{{"", record}}, {}})),
              AllOf(HasSubstr("so 85 % efficient"), HasSubstr("Costs: sharing the machine 15 %:")));
  // Nothing is lost at 100 %, whatever the control says.
  record = record_of(0.5, "ddp", 2, 0.5, 0.52);
  record.runs[1].breakdown.reset();
  assign_factors(record);
  EXPECT_THAT(to_text(explanation({{{"", record}}, {}})), Not(HasSubstr("Costs")));
}

}  // namespace
}  // namespace lockstep::results
