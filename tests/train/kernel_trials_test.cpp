// `--kernels auto`: one choice for all rows of a network, by a trial.

#include "lockstep/train/job/kernel_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/kernels/kernel_choice.h"

namespace lockstep::train {
namespace {

JobPlan job_of(const SweepOptions& options) {
  JobPlan job;
  job.rows = plan_rows(options);
  for (const RowPlan& row : job.rows) job.ranks = std::max(job.ranks, row.ranks);
  return job;
}

TEST(KernelTrialsTest, are_for_all_rows_of_a_network_and_keep_what_was_asked_for) {
  if (!kernels::why_no_fused_kernels().empty()) GTEST_SKIP() << "there is no choice";
  JobPlan job = job_of({.models = {"lenet5", "mlp"}, .batches = {2}, .ranks = {1, 2}});
  job.rows.front().kernels = "aten";
  const std::vector<results::KernelTrial> trials = choose_kernels(job, nullptr);
  ASSERT_EQ(trials.size(), 2U);
  EXPECT_EQ(job.rows.front().kernels, "aten");
  for (size_t i = 1; i < job.rows.size(); ++i) {
    const RowPlan& row = job.rows[i];
    const results::KernelTrial& trial = trials[row.model == "mlp"];
    EXPECT_EQ(trial.model, row.model);
    EXPECT_GT(trial.fused_s, 0);
    EXPECT_GT(trial.aten_s, 0);
    EXPECT_EQ(trial.kernels, faster_kernels(trial.fused_s, trial.aten_s));
    EXPECT_EQ(row.kernels, trial.kernels) << row.label();
  }
}

TEST(KernelTrialsTest, hold_for_all_batches_of_strong_scaling_and_in_later_launches) {
  if (!kernels::why_no_fused_kernels().empty()) GTEST_SKIP() << "there is no choice";
  const SweepOptions strong{.models = {"mlp"}, .ranks = {1, 2}, .global_batches = {4}};
  JobPlan job = job_of(strong);
  std::vector<results::KernelTrial> trials = choose_kernels(job, nullptr);
  ASSERT_EQ(trials.size(), 1U);
  // A time that no trial finds.
  trials[0].kernels = "aten";
  trials[0].aten_s = 1234;
  JobPlan later = job_of(strong);
  EXPECT_EQ(choose_kernels(later, nullptr, trials)[0].aten_s, 1234);
  for (const RowPlan& row : later.rows) EXPECT_EQ(row.kernels, "aten");
  JobPlan other = job_of({.models = {"mlp"}, .batches = {4}, .ranks = {1}});
  EXPECT_LT(choose_kernels(other, nullptr, trials)[0].aten_s, 1234);
}

TEST(KernelTrialsTest, leave_explicit_rows_alone) {
  JobPlan job = job_of({.models = {"mlp"}, .ranks = {1}, .kernels = {"aten"}});
  EXPECT_TRUE(choose_kernels(job, nullptr).empty());
  EXPECT_EQ(job.rows.front().kernels, "aten");
}

TEST(KernelTrialsTest, prefer_fused_kernels_to_a_coin) {
  EXPECT_STREQ(faster_kernels(1, 0.5), "aten");
  EXPECT_STREQ(faster_kernels(1, 0.97), "aten");
  EXPECT_STREQ(faster_kernels(1, 0.99), "fused");
  EXPECT_STREQ(faster_kernels(1, 1.01), "fused");
}

}  // namespace
}  // namespace lockstep::train
