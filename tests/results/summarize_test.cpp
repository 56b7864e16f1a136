#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/results/record/baseline.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SummarizeTest, a_coupled_step_takes_as_long_as_the_longest_of_its_ranks) {
  auto run = plain_run("ddp", 2);
  summarize(run, {.warmup_s = {{3, 2}, {4, 2}}, .step_s = {{1.0, 2.0, 1.0, 2.0}, {1.5, 1.5, 1.5, 1.5}}});
  EXPECT_THAT(run.samples, ElementsAre(ElementsAre(1, 1.5), ElementsAre(2, 1.5), ElementsAre(1, 1.5),
                                       ElementsAre(2, 1.5)));
  EXPECT_THAT(run.warmup_samples, ElementsAre(ElementsAre(3, 4), ElementsAre(2, 2)));
  EXPECT_EQ(run.warmup_steps, 2);
  EXPECT_THAT(representative_steps(run), ElementsAre(1.5, 2, 1.5, 2));
  EXPECT_DOUBLE_EQ(run.step_s.p50.value(), 1.75);
  EXPECT_DOUBLE_EQ(run.step_s.p75.value(), 2);
  EXPECT_FALSE(run.step_s.p90);
  EXPECT_DOUBLE_EQ(run.images_per_s, 2 * 8 * 4 / 6.0);
}

TEST(SummarizeTest, maxima_that_do_not_add_up_to_the_time_that_passed_are_a_warning) {
  for (const auto& [longer_s, warnings] : {std::pair{1.019, 0u}, {1.021, 1u}}) {
    // The ranks take turns in being the slower one.
    auto run = plain_run("ddp", 2);
    summarize(run, {.warmup_s = {}, .step_s = {{1, longer_s}, {longer_s, 1}}});
    EXPECT_DOUBLE_EQ(run.elapsed_s, 1 + longer_s);
    EXPECT_EQ(run.warnings.size(), warnings) << longer_s;
  }
}

TEST(SummarizeTest, the_rate_of_uncoupled_ranks_is_the_sum_of_their_own_rates) {
  auto run = plain_run("independent", 2);
  // Rank 0 makes a step per second, rank 1 two; both for four seconds.
  summarize(run, {.warmup_s = {}, .step_s = {{1, 1, 1, 1}, std::vector<double>(8, 0.5)}});
  EXPECT_DOUBLE_EQ(run.images_per_s, 8 * 1 + 8 * 2);
  EXPECT_THAT(run.samples, ElementsAre(ElementsAre(1, 0.5), ElementsAre(1, 0.5), ElementsAre(1, 0.5),
                                       ElementsAre(1, 0.5)));
  EXPECT_DOUBLE_EQ(run.step_s.p75.value(), 1) << "the slowest rank is shown";
}

TEST(SummarizeTest, uncoupled_ranks_count_only_while_all_of_them_run) {
  auto run = plain_run("independent", 2);
  // Rank 1 is alone from second 4 on, and twice as fast then; rank 0 starts a second late, so rank 1's first
  // counts not.
  summarize(run, {.warmup_s = {{1}, {}}, .step_s = {{1, 1, 1}, {0.25, 0.25, 0.25, 0.25, 1, 1, 1, 0.5, 0.5}}});
  EXPECT_DOUBLE_EQ(run.images_per_s, 8 * 1 + 8 * 1);
  EXPECT_TRUE(run.step_s.p50);
}

TEST(SummarizeTest, a_rank_without_a_whole_step_inside_the_window_counts_with_all_of_its_steps) {
  auto run = plain_run("independent", 2);
  summarize(run, {.warmup_s = {}, .step_s = {{4, 4}, {0.5, 0.5}}});
  EXPECT_DOUBLE_EQ(run.images_per_s, 8 * 0.25 + 8 * 2);
}

TEST(SummarizeTest, series_that_do_not_fit_the_run_are_refused_with_their_numbers) {
  const auto message = [](results::Run run, const RowSeries& series) -> std::string {
    try {
      summarize(run, series);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(message(plain_run("ddp", 2), {.warmup_s = {}, .step_s = {{1}}}),
              HasSubstr("samples of 1 ranks"));
  EXPECT_THAT(message(plain_run("ddp", 2), {.warmup_s = {}, .step_s = {{1, 1}, {1}}}),
              HasSubstr("rank 1 has 1 steps, rank 0 has 2"));
  EXPECT_THAT(message(plain_run("ddp", 1), {.warmup_s = {}, .step_s = {{}}}), HasSubstr("no measured step"));
  EXPECT_THAT(message(plain_run("ddp", 1), {.warmup_s = {}, .step_s = {{1, nan}}}),
              HasSubstr("step 1 of rank 0 took nan s"));
  EXPECT_THAT(message(plain_run("ddp", 1), {.warmup_s = {}, .step_s = {{0, 1}}}),
              HasSubstr("step 0 of rank 0 took 0 s"));
}

}  // namespace
}  // namespace lockstep::results
