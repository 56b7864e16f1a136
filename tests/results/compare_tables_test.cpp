#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/measure/compare.h"
#include "lockstep/results/tables/diff.h"

namespace lockstep::results {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A row of ddp at 2 ranks with 8 images each; every launch has 20 steps of one of these times.
RunRecord side(const std::vector<double>& launches_s) {
  RunRecord record;
  Run run;
  run.model = "lenet5";
  run.batch_per_rank = 8;
  run.ranks = 2;
  run.strategy = "ddp";
  for (const double step_s : launches_s) {
    for (int step = 0; step < 20; ++step) run.samples.push_back({step_s, 0.5 * step_s});
    run.launch_steps.push_back(20);
  }
  record.runs = {run};
  return record;
}

std::string text_of(const std::vector<double>& base_s, const std::vector<double>& test_s,
                    const Turns& turns = {}) {
  const RunRecord base = side(base_s);
  const RunRecord test = side(test_s);
  const double confidence = measure::LookPlan(32).confidence_of_look(true);
  return to_text(compare_tables(
      compare_records(base, test, {.paired = true, .decisive = 50, .confidence = confidence}), turns));
}

TEST(CompareTablesTest, every_launch_is_shown_in_its_turn_and_the_verdict_in_a_sentence) {
  const std::string text = text_of({0.01, 0.0101, 0.0099, 0.01}, {0.02, 0.0202, 0.0198, 0.02},
                                   {.pairs = 4, .looks = 7, .elapsed_s = 62});
  EXPECT_THAT(text, AllOf(HasSubstr("lenet5 ddp at 2 ranks: images/s of each launch, at the median step"),
                          HasSubstr("pair  first    base   test  test/base\n"),
                          HasSubstr("   1  base   1600.0  800.0      0.500\n"),
                          HasSubstr("   2  test   1584.2  792.1      0.500\n"),
                          HasSubstr(" all         1600.0  800.0      0.500\n")));
  EXPECT_THAT(
      text,
      HasSubstr("Verdict: test is slower: 0.500 times the rate of base [0.500, 0.500]. The difference is "
                "certain, and\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("beyond the threshold of 2 %"),
                          HasSubstr("Ended after 4 launches of each side, in 1 min 02 s."),
                          HasSubstr("looked at up to 7 times"), HasSubstr("97.50 %")));
}

TEST(CompareTablesTest, the_median_of_pairs_is_called_so_where_it_is_not_the_quotient) {
  std::vector<double> base_s(12, 0.01), test_s(12, 0.011);
  test_s[3] = 0.05;
  EXPECT_THAT(text_of(base_s, test_s),
              AllOf(HasSubstr(" all         1600.0  1282.1      0.801\n"),
                    HasSubstr("The ratio is that of the pairs, not of the line 'all'")));
  const RunRecord base = side(base_s), test = side(test_s);
  EXPECT_THAT(to_text(diff_tables(compare_records(base, test, {.paired = true}))),
              HasSubstr("a\nchange is the median of the pairs' changes"));
}

TEST(CompareTablesTest, a_faster_test_has_the_higher_rate) {
  EXPECT_THAT(text_of({0.02, 0.0202, 0.02}, {0.01, 0.0101, 0.01}),
              HasSubstr("test is faster: 2.000 times the rate"));
}

TEST(CompareTablesTest, no_difference_and_no_certainty_are_told_apart) {
  const std::string below = text_of({0.01, 0.010001, 0.009999, 0.01}, {0.01, 0.010002, 0.01, 0.009999});
  EXPECT_THAT(
      below,
      AllOf(HasSubstr("no difference of 2 % or more: test has 1.000 times the rate of base [1.000, 1.000]"),
            Not(HasSubstr("--max-launches"))));
  const std::string open = text_of({0.01, 0.012, 0.009, 0.011}, {0.011, 0.01, 0.012, 0.009},
                                   {.end = TurnsEnd::kMostLaunches, .pairs = 4});
  EXPECT_THAT(open,
              AllOf(HasSubstr("not certain: test has"), HasSubstr("the most that --max-launches allows"),
                    HasSubstr("keep the machine free of other work")));
}

TEST(CompareTablesTest, one_pair_says_why_it_is_not_certain) {
  EXPECT_THAT(text_of({0.01}, {0.02}, {.end = TurnsEnd::kInterrupted, .pairs = 1}),
              AllOf(HasSubstr("not certain: test has 0.500"), HasSubstr("after 1 launch of each side"),
                    HasSubstr("by a signal")));
}

TEST(CompareTablesTest, a_percentile_that_the_launches_do_not_have_gives_no_ratio) {
  const RunRecord base = side({0.01, 0.01, 0.01}), test = side({0.02, 0.02, 0.02});
  EXPECT_THAT(
      to_text(compare_tables(compare_records(base, test, {.paired = true, .decisive = 99}), {})),
      AllOf(HasSubstr("Verdict: cannot be judged: base: p99 needs"), Not(HasSubstr("times the rate"))));
}

TEST(CompareTablesTest, markdown_is_a_form_of_it) {
  const RunRecord base = side({0.01, 0.01, 0.01});
  const RunRecord test = side({0.02, 0.02, 0.02});
  EXPECT_THAT(to_text(compare_tables(compare_records(base, test, {.paired = true, .decisive = 50}), {}),
                      TextForm::kMarkdown),
              HasSubstr("| pair | first | base | test | test/base |"));
}

}  // namespace
}  // namespace lockstep::results
