#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include "lockstep/measure/phases.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/train/rows/row_runner.h"
#include "lockstep/train/verify/verify.h"

namespace lockstep {
namespace {

constexpr int kDevices = 2;

/// data_parallel, whose devices are threads of one process.
class GpusOfOneProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    const replica::AcceleratorStatus status = replica::accelerator_status();
    if (status.count < kDevices) {
      GTEST_SKIP() << kDevices << " devices need as many GPUs, and there are " << status.count << ": "
                   << status.detail;
    }
  }

  static train::RowPlan row_of(const std::string& model, const std::string& precision) {
    train::SweepOptions sweep;
    sweep.models = {model};
    sweep.batches = {8};
    sweep.ranks = {kDevices};
    sweep.strategies = {"data_parallel"};
    sweep.precisions = {precision};
    sweep.common.device = train::kCuda;
    sweep.controls = false;
    sweep.common.learning_rate = 0.05;
    if (model == "resnet18") sweep.common.image_size = 64;
    sweep.pacing = {.warmup_steps = 5, .steps = 10};
    return train::plan_rows(sweep).front();
  }

  launch::Progress progress_;
};

TEST_F(GpusOfOneProcessTest, they_agree_with_one_on_the_joint_batch_and_with_themselves) {
  for (const char* model : {"mlp", "lenet5"}) {
    for (const train::Check& check : train::verify_row(row_of(model, "fp32"), 5, nullptr, progress_)) {
      EXPECT_EQ(check.outcome, train::Check::Outcome::kRight)
          << model << ", " << check.name << ": " << check.detail;
    }
  }
}

TEST_F(GpusOfOneProcessTest, each_has_memory_and_use_of_its_own_in_the_result) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16"}) {
    const train::RowResult result = train::run_row(row_of("resnet18", precision), nullptr, progress_);
    ASSERT_EQ(result.ranks.size(), static_cast<size_t>(kDevices));
    for (const train::RankReport& rank : result.ranks) {
      EXPECT_GT(rank.use.peak_device_memory_bytes, 0);
      EXPECT_LT(rank.loss_last, 10) << precision;
    }
    EXPECT_EQ(result.ranks.front().gpus.size(), static_cast<size_t>(kDevices));
  }
}

TEST_F(GpusOfOneProcessTest, phases_sum_to_the_step) {
  const auto stamps = train::break_down_row(row_of("resnet18", "fp32"), nullptr, progress_);
  ASSERT_EQ(stamps.size(), static_cast<size_t>(kDevices));
  const measure::PhaseTimes mean = measure::break_down(stamps).mean;
  EXPECT_NEAR(mean.input_s + mean.forward_s + mean.backward_s + mean.waiting_s + mean.transfer_s +
                  mean.optimizer_s + mean.other_s,
              mean.step_s, 1e-6);
}

}  // namespace
}  // namespace lockstep
