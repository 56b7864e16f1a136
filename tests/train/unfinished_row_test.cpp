#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/train/rows/row_result.h"

namespace lockstep::train {
namespace {

/// A row of 3 ranks without a fixed number of steps.
RowPlan three_ranks_of(const std::string& strategy) {
  SweepOptions options;
  options.models = {"trivial"};
  options.batches = {4};
  options.ranks = {3};
  options.strategies = {strategy};
  options.controls = false;
  options.common.device = kCpu;
  return plan_rows(options).front();
}

/// `steps` steps of each rank, the first of which takes ten times as long as the others.
std::vector<double> times_of_rank(int steps, double step_s) {
  std::vector<double> all(static_cast<size_t>(steps), step_s);
  all.front() *= 10;
  return all;
}

TEST(UnfinishedRowTest, coupled_ranks_have_the_steps_that_all_of_them_made) {
  const auto run =
      unfinished_run(three_ranks_of("ddp"),
                     {times_of_rank(40, 0.5), times_of_rank(42, 0.25), times_of_rank(41, 0.25)}, "killed");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->unfinished, "killed");
  EXPECT_FALSE(run->finished());
  EXPECT_EQ(run->samples.size() + run->warmup_samples.size(), 40U);
  EXPECT_GE(run->warmup_samples.size(), 1U);
  EXPECT_EQ(run->samples.front(), (std::vector<double>{0.5, 0.25, 0.25}));
  EXPECT_DOUBLE_EQ(run->images_per_s, 3 * 4 / 0.5);
  EXPECT_EQ(run->step_s.p50, 0.5);
  EXPECT_TRUE(std::isnan(run->loss_last));
  ASSERT_TRUE(run->rate_interval);
  EXPECT_EQ(run->rate_interval->missing, results::kUnfinished);
  EXPECT_TRUE(run->warnings.empty());
}

TEST(UnfinishedRowTest, of_uncoupled_ranks_each_has_its_own) {
  const auto run =
      unfinished_run(three_ranks_of("independent"),
                     {times_of_rank(40, 0.5), times_of_rank(80, 0.25), times_of_rank(80, 0.25)}, "killed");
  ASSERT_TRUE(run);
  EXPECT_FALSE(run->coupled);
  EXPECT_NEAR(run->images_per_s, 4 / 0.5 + 2 * 4 / 0.25, 0.5);
}

TEST(UnfinishedRowTest, a_row_that_ended_within_warm_up_has_no_rate) {
  const auto run = unfinished_run(three_ranks_of("ddp"), {{0.5, 0.25}, {0.5}, {0.5, 0.25}}, "killed");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->warmup_samples.size(), 1U);
  EXPECT_TRUE(run->samples.empty());
  EXPECT_EQ(run->images_per_s, 0);
  EXPECT_FALSE(run->step_s.p50);
}

TEST(UnfinishedRowTest, before_the_first_step_there_is_none) {
  EXPECT_FALSE(unfinished_run(three_ranks_of("ddp"), {{0.5}, {}, {0.5}}, "killed"));
  EXPECT_FALSE(unfinished_run(three_ranks_of("ddp"), {}, "killed"));
}

TEST(UnfinishedRowTest, ranks_of_other_hosts_are_left_out) {
  const auto ddp = unfinished_run(three_ranks_of("ddp"), {times_of_rank(40, 0.5)}, "killed");
  ASSERT_TRUE(ddp);
  EXPECT_EQ(ddp->samples.front().size(), 1U);
  EXPECT_DOUBLE_EQ(ddp->images_per_s, 3 * 4 / 0.5) << "the ranks move together";
  const auto alone = unfinished_run(three_ranks_of("independent"), {times_of_rank(40, 0.5)}, "killed");
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->images_per_s, 0) << "how fast the others were is not known";
}

TEST(UnfinishedRowTest, a_process_with_the_devices_of_all_ranks_has_the_steps_of_each) {
  const auto run =
      unfinished_run(three_ranks_of("data_parallel"), {times_of_rank(40, 0.5), {}, {}}, "killed");
  // The ranks whose devices it uses sleep.
  EXPECT_TRUE(run.has_value());
}

}  // namespace
}  // namespace lockstep::train
