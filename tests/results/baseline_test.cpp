#include "lockstep/results/record/baseline.h"

#include <cmath>

#include <gtest/gtest.h>

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

Run measured(const std::string& strategy, int ranks, double images_per_s) {
  auto run = plain_run(strategy, ranks);
  run.images_per_s = images_per_s;
  return run;
}

TEST(BaselineTest, speedup_and_efficiency_are_against_one_rank_without_a_strategy) {
  RunRecord record;
  record.runs = {measured("single", 1, 10), measured("ddp", 1, 9), measured("ddp", 4, 30),
                 measured("independent", 4, 36)};
  assign_baselines(record);
  EXPECT_DOUBLE_EQ(record.runs[0].speedup.value(), 1);
  EXPECT_DOUBLE_EQ(record.runs[1].efficiency.value(), 0.9);
  EXPECT_DOUBLE_EQ(record.runs[2].speedup.value(), 3);
  EXPECT_DOUBLE_EQ(record.runs[2].efficiency.value(), 0.75);
  EXPECT_DOUBLE_EQ(record.runs[3].efficiency.value(), 0.9);
  EXPECT_EQ(record.runs[2].baseline->strategy, "single");
  EXPECT_EQ(record.runs[2].baseline->ranks, 1);
  EXPECT_DOUBLE_EQ(record.runs[2].baseline->images_per_s, 10);
}

TEST(BaselineTest, the_interval_of_a_speedup_is_that_of_the_ratio_of_both_rates) {
  RunRecord record;
  record.runs = {measured("single", 1, 10), measured("ddp", 2, 18), measured("independent", 2, 20)};
  record.runs[0].rate_interval = Interval{10 / std::exp(0.04), 10 * std::exp(0.04), ""};
  record.runs[1].rate_interval = Interval{18 / std::exp(0.03), 18 * std::exp(0.03), ""};
  record.runs[2].rate_interval = Interval{0, 0, "trend"};
  assign_baselines(record);
  EXPECT_FALSE(record.runs[0].speedup_interval) << "1 by definition";
  ASSERT_TRUE(record.runs[1].speedup_interval);
  EXPECT_NEAR(record.runs[1].speedup_interval->low, 1.8 * std::exp(-0.05), 1e-12);
  EXPECT_NEAR(record.runs[1].speedup_interval->high, 1.8 * std::exp(0.05), 1e-12);
  EXPECT_NEAR(record.runs[1].efficiency_interval()->high, 0.9 * std::exp(0.05), 1e-12);
  EXPECT_EQ(record.runs[2].speedup_interval->missing, "trend");
  record.runs[0].rate_interval = Interval{0, 0, "level shift at step 9"};
  assign_baselines(record);
  EXPECT_EQ(record.runs[1].speedup_interval->missing, "baseline: level shift at step 9");
  record.runs[1].rate_interval.reset();
  assign_baselines(record);
  EXPECT_EQ(record.runs[1].speedup_interval->missing, "not enough data");
}

TEST(BaselineTest, only_the_same_work_is_a_baseline) {
  RunRecord record;
  record.runs = {measured("single", 1, 10), measured("ddp", 2, 18)};
  const auto without = [&](auto&& change) {
    RunRecord other = record;
    change(other.runs[0]);
    assign_baselines(other);
    return !other.runs[1].speedup && !other.runs[1].efficiency && !other.runs[1].baseline;
  };
  EXPECT_TRUE(without([](auto& run) { run.model = "resnet101"; }));
  EXPECT_TRUE(without([](auto& run) { run.batch_per_rank = 4; }));
  EXPECT_TRUE(without([](auto& run) { run.precision = "bf16"; }));
  EXPECT_TRUE(without([](auto& run) { run.kernels = "aten"; }));
  EXPECT_TRUE(without([](auto& run) { run.memory_format = "contiguous"; }));
  EXPECT_TRUE(without([](auto& run) { run.image_size = 64; }));
  EXPECT_TRUE(without([](auto& run) { run.data = "data/digits"; }));
  EXPECT_TRUE(without([](auto& run) { run.input_options = "--prefetch 8"; }));
  EXPECT_TRUE(without([](auto& run) { run.threads_per_rank = 2; }));
  EXPECT_TRUE(without([](auto& run) { run.images_per_s = 0; }));
  // One rank alone has neither a backend nor buckets.
  EXPECT_FALSE(without([](auto& run) { run.backend = "", run.bucket_mb = 0; }));
}

TEST(BaselineTest, the_control_of_a_run_has_its_number_of_ranks) {
  RunRecord record;
  record.runs = {measured("ddp", 2, 18), measured("independent", 4, 40), measured("independent", 2, 20)};
  EXPECT_EQ(independent_of(record, record.runs[0]), &record.runs[2]);
  record.runs.pop_back();
  EXPECT_EQ(independent_of(record, record.runs[0]), nullptr);
}

TEST(BaselineTest, a_strategy_that_was_not_asked_for_is_a_control) {
  RunRecord record;
  EXPECT_TRUE(is_control(record, plain_run("single", 1)));
  EXPECT_FALSE(is_control(record, plain_run("independent", 2)));
  record.strategies = {"ddp"};
  EXPECT_TRUE(is_control(record, plain_run("single", 1)));
  EXPECT_TRUE(is_control(record, plain_run("independent", 2)));
  EXPECT_FALSE(is_control(record, plain_run("ddp", 2)));
}

}  // namespace
}  // namespace lockstep::results
