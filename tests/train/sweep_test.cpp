#include "lockstep/train/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/kernels/kernel_choice.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using train::plan_rows;
using train::SweepOptions;

std::vector<std::string> labels(const SweepOptions& options) {
  std::vector<std::string> all;
  for (const train::RowPlan& row : plan_rows(options)) all.push_back(row.label());
  return all;
}

std::string refusal(const SweepOptions& options) {
  try {
    plan_rows(options);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " " + error.advice();
  }
  return "accepted";
}

TEST(SweepTest, controls_stand_beside_every_number_of_ranks) {
  EXPECT_THAT(labels({.models = {"lenet5"}, .batches = {8}, .ranks = {1, 2}}),
              ElementsAre("lenet5 single 1 rank x 8", "lenet5 ddp 1 rank x 8", "lenet5 ddp 2 ranks x 8",
                          "lenet5 independent 2 ranks x 8"));
}

TEST(SweepTest, controls_can_be_left_out) {
  EXPECT_THAT(labels({.models = {"lenet5"}, .batches = {8}, .ranks = {2}, .controls = false}),
              ElementsAre("lenet5 ddp 2 ranks x 8"));
}

TEST(SweepTest, lists_sweep_and_repeats_are_measured_once) {
  const auto rows = plan_rows({.models = {"lenet5", "mlp"},
                               .batches = {4, 8, 4},
                               .ranks = {2, 1, 2},
                               .precisions = {"fp32", "bf16"},
                               .bucket_mb = {1, 25}});
  // Per model, batch and precision: single, ddp at 2 caps x 2 ranks, independent at 2.
  EXPECT_EQ(rows.size(), 2u * 2 * 2 * 6);
}

TEST(SweepTest, kernels_sweep_where_there_are_several) {
  const SweepOptions both{.models = {"lenet5"}, .ranks = {2}, .kernels = {"aten", "fused", "aten"}};
  if (!kernels::why_no_fused_kernels().empty()) {
    EXPECT_THROW(plan_rows(both), BackendMissing);
    EXPECT_EQ(plan_rows({.models = {"lenet5"}, .ranks = {2}}).front().kernels, "aten");
    return;
  }
  std::vector<std::string> found;
  for (const train::RowPlan& row : plan_rows(both)) found.push_back(row.strategy + " " + row.kernels);
  EXPECT_THAT(found, ElementsAre("single aten", "ddp aten", "independent aten", "single fused", "ddp fused",
                                 "independent fused"));
  EXPECT_EQ(plan_rows({.models = {"lenet5"}, .ranks = {2}}).front().kernels, "fused");
}

TEST(SweepTest, the_default_batch_is_the_networks_own) {
  EXPECT_EQ(plan_rows({.models = {"resnet50"}, .ranks = {1}}).front().batch_per_rank, 32);
}

TEST(SweepTest, what_cannot_be_measured_is_refused_by_name) {
  EXPECT_THAT(refusal({.models = {"resnet5"}, .ranks = {1}}), HasSubstr("did you mean resnet50"));
  EXPECT_THAT(refusal({.ranks = {1}, .strategies = {"dpp"}}), HasSubstr("did you mean ddp"));
  EXPECT_THAT(refusal({.ranks = {1}, .precisions = {"fp31"}}), HasSubstr("did you mean fp32"));
  EXPECT_THAT(refusal({.ranks = {1}, .kernels = {"fussed"}}), HasSubstr("did you mean fused"));
  EXPECT_THAT(refusal({.batches = {0}, .ranks = {1}}), HasSubstr("--batch must be greater than 0, not 0"));
  EXPECT_THAT(refusal({.ranks = {-2}}), HasSubstr("--ranks must be greater than 0, not -2"));
  EXPECT_THAT(refusal({.ranks = {1}, .bucket_mb = {0}}), HasSubstr("--bucket-mb must be greater than 0"));
  EXPECT_THAT(refusal({.ranks = {1}, .pacing = {.steps = 0}}), HasSubstr("--steps must be greater than 0"));
  EXPECT_THAT(refusal({.ranks = {1}, .pacing = {.warmup_steps = -1}}),
              HasSubstr("--warmup must not be negative"));
  EXPECT_THAT(refusal({.ranks = {1}, .image_size = 8}), HasSubstr("resnet50 takes images from 32x32"));
  EXPECT_THAT(refusal({.ranks = {1}, .strategies = {"independent"}, .controls = false}),
              HasSubstr("nothing to measure"));
}

TEST(SweepTest, strong_scaling_splits_one_batch_over_the_ranks) {
  const auto rows = plan_rows({.models = {"lenet5"}, .ranks = {1, 2, 4}, .global_batches = {32}});
  for (const train::RowPlan& row : rows) {
    EXPECT_EQ(row.global_batch, 32);
    EXPECT_EQ(row.batch_per_rank * row.ranks, 32) << row.label();
  }
  EXPECT_THAT(refusal({.models = {"lenet5"}, .ranks = {1, 3}, .global_batches = {32}}),
              HasSubstr("--global-batch 32 cannot be split into equal parts for 3 ranks"));
  EXPECT_THAT(refusal({.batches = {8}, .ranks = {1}, .global_batches = {32}}),
              HasSubstr("exclude each other"));
}

TEST(SweepTest, a_precision_that_cannot_be_is_refused) {
  EXPECT_THAT(refusal({.ranks = {1}, .pacing = {.precision_target = 0}}), HasSubstr("--precision-target"));
  EXPECT_THAT(refusal({.ranks = {1}, .pacing = {.precision_target = 1.5}}), HasSubstr("not 150 %"));
  EXPECT_THAT(refusal({.ranks = {1}, .pacing = {.max_time_s = 0}}), HasSubstr("--max-time"));
}

TEST(SweepTest, a_batch_that_does_not_fit_is_refused_with_one_that_does) {
  const auto rows = plan_rows({.models = {"resnet18"}, .batches = {4096}, .ranks = {1}, .image_size = 64});
  try {
    train::check_memory(rows, 1, 2 * kGiB);
    FAIL();
  } catch (const ConfigError& error) {
    const std::string advice = error.advice();
    ASSERT_THAT(advice, HasSubstr("Use --batch "));
    const int fitting = std::stoi(advice.substr(advice.find("--batch ") + 8));
    EXPECT_GT(fitting, 0);
    const auto smaller =
        plan_rows({.models = {"resnet18"}, .batches = {fitting}, .ranks = {1}, .image_size = 64});
    EXPECT_NO_THROW(train::check_memory(smaller, 1, 2 * kGiB));
    const auto larger =
        plan_rows({.models = {"resnet18"}, .batches = {fitting + 2}, .ranks = {1}, .image_size = 64});
    EXPECT_THROW(train::check_memory(larger, 1, 2 * kGiB), ConfigError);
  }
}

}  // namespace
}  // namespace lockstep
