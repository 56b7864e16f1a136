#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/record/baseline.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

/// 0.5 s alone, 0.55 s independent, 0.7 s the job: 0.04 s of it waiting, 0.06 s transfer.
RunRecord record_with_breakdown() {
  RunRecord record = described_record();
  record.runs = {measured_run("single", 1, 24, 0.5), measured_run("ddp", 2, 24, 0.7),
                 measured_run("independent", 2, 24, 0.55)};
  Run& ddp = record.runs[1];
  ddp.breakdown = breakdown_of(2, 0.7, 0.04, 0.06);
  assign_baselines(record);
  assign_factors(record);
  return record;
}

TEST(FactorsTest, their_product_is_the_efficiency) {
  const RunRecord record = record_with_breakdown();
  const results::Run& ddp = record.runs[1];
  ASSERT_TRUE(ddp.factors);
  const EfficiencyFactors& factors = *ddp.factors;
  EXPECT_NEAR(factors.machine * factors.strategy * factors.transfer * factors.stragglers, *ddp.efficiency,
              1e-12);
  EXPECT_NEAR(factors.machine, 0.5 / 0.55, 1e-3);
  EXPECT_NEAR(factors.strategy, 0.55 / 0.6, 1e-2);
  EXPECT_NEAR(factors.transfer, 0.6 / 0.66, 1e-3);
  EXPECT_NEAR(factors.stragglers, 0.66 / 0.7, 1e-3);
}

TEST(FactorsTest, a_breakdown_that_was_slower_as_a_whole_keeps_its_shares) {
  RunRecord record = record_with_breakdown();
  const EfficiencyFactors before = *record.runs[1].factors;
  record.runs[1].breakdown = breakdown_of(2, 0.77, 0.044, 0.066);
  assign_factors(record);
  EXPECT_NEAR(record.runs[1].factors->transfer, before.transfer, 1e-12);
  EXPECT_NEAR(record.runs[1].factors->stragglers, before.stragglers, 1e-12);
}

TEST(FactorsTest, under_strong_scaling_they_multiply_to_the_efficiency_too) {
  RunRecord record = record_with_breakdown();
  for (results::Run& run : record.runs) run.global_batch = 16;
  record.runs[0].batch_per_rank = 16;
  record.runs[0].images_per_s *= 2;
  assign_baselines(record);
  assign_factors(record);
  const results::Run& ddp = record.runs[1];
  const EfficiencyFactors& factors = *ddp.factors;
  EXPECT_NEAR(factors.machine * factors.strategy * factors.transfer * factors.stragglers, *ddp.efficiency,
              1e-12);
  EXPECT_NEAR(*ddp.efficiency, 0.5 * 0.5 / 0.7, 1e-2);
}

TEST(FactorsTest, intervals_come_from_all_times_behind_a_factor) {
  const RunRecord record = record_with_breakdown();
  const EfficiencyFactors& factors = *record.runs[1].factors;
  ASSERT_TRUE(factors.half_width.machine);
  EXPECT_GT(*factors.half_width.machine, 0);
  EXPECT_LT(*factors.half_width.machine, 0.01);
  ASSERT_TRUE(factors.half_width.transfer);
  // 0.001 s of 0.66 s, and next to nothing from the job's own step.
  EXPECT_NEAR(*factors.half_width.transfer, 0.001 / 0.66, 3e-4);
  RunRecord unsure = record;
  unsure.runs[2].rate_interval->missing = "trend";
  assign_factors(unsure);
  EXPECT_FALSE(unsure.runs[1].factors->half_width.machine);
  EXPECT_TRUE(unsure.runs[1].factors->half_width.stragglers);
}

TEST(FactorsTest, nothing_is_split_without_all_that_it_takes) {
  RunRecord record = record_with_breakdown();
  record.runs[1].breakdown.reset();
  assign_factors(record);
  EXPECT_FALSE(record.runs[1].factors);
  record = record_with_breakdown();
  record.runs.pop_back();
  assign_factors(record);
  EXPECT_FALSE(record.runs[1].factors);
}

}  // namespace
}  // namespace lockstep::results
