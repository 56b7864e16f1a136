#include <mutex>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones.h>

#include "lockstep/base/error.h"
#include "lockstep/inputs/input.h"
#include "lockstep/replica/precision.h"
#include "lockstep/train/rows/data_parallel_model.h"
#include "lockstep/train/rows/row_runner.h"
#include "lockstep/train/verify/verify.h"

namespace lockstep {
namespace {

using train::DataParallelModel;

train::RowPlan measured_row_of(const std::string& model, const std::string& strategy, int ranks, int batch) {
  at::set_num_threads(1);
  train::SweepOptions sweep;
  sweep.models = {model};
  sweep.batches = {batch};
  sweep.ranks = {ranks};
  sweep.strategies = {strategy};
  sweep.controls = false;
  sweep.common.learning_rate = 0.05;
  sweep.pacing = {.warmup_steps = 1, .steps = 3};
  return train::plan_rows(sweep).front();
}

class DataParallelTest : public testing::TestWithParam<int> {};

TEST_P(DataParallelTest, devices_agree_with_one_on_the_joint_batch_and_with_themselves) {
  for (const char* model : {"mlp", "lenet5"}) {
    launch::Progress progress;
    for (const train::Check& check :
         train::verify_row(measured_row_of(model, "data_parallel", GetParam(), 4), 5, nullptr, progress)) {
      const bool alone = GetParam() == 1 && check.name == "replicas equal";
      EXPECT_EQ(check.outcome, alone ? train::Check::Outcome::kNotApplicable : train::Check::Outcome::kRight)
          << model << ", " << check.name << ": " << check.detail;
    }
  }
}

TEST_P(DataParallelTest, a_row_has_the_steps_of_every_device) {
  launch::Progress progress;
  const train::RowPlan row = measured_row_of("lenet5", "data_parallel", GetParam(), 2);
  EXPECT_EQ(train::training_ranks(row), 1);
  const train::RowResult result = train::run_row(row, nullptr, progress);
  const auto devices = static_cast<size_t>(GetParam());
  ASSERT_EQ(result.ranks.size(), devices);
  for (const train::RankReport& device : result.ranks) {
    EXPECT_EQ(device.warmup_s, result.ranks.front().warmup_s);
    EXPECT_EQ(device.step_s, result.ranks.front().step_s);
  }
  const auto stamps = train::break_down_row(row, nullptr, progress);
  ASSERT_EQ(stamps.size(), devices);
  const measure::PhaseTimes mean = measure::break_down(stamps).mean;
  EXPECT_NEAR(mean.input_s + mean.forward_s + mean.backward_s + mean.waiting_s + mean.transfer_s +
                  mean.optimizer_s + mean.other_s,
              mean.step_s, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(devices, DataParallelTest, testing::Values(1, 2, 3));

std::unique_ptr<DataParallelModel> make(const models::ModelInfo& info, int devices) {
  at::set_num_threads(1);
  return DataParallelModel::make([&] { return info.create({}); }, devices, {});
}

TEST(DataParallelModelTest, running_statistics_are_those_of_device_0s_part) {
  const models::ModelInfo& info = models::registry().get("resnet18");
  const auto model = make(info, 2);
  const auto alone = info.create({});
  const at::Tensor images =
      inputs::registry().get("device").create({.batch = 4, .image_size = 32})->next().images;
  model->forward(images, {.training = true});
  alone->forward(images.narrow(0, 0, 2), {.training = true});
  ASSERT_FALSE(alone->parameters().buffers().empty());
  for (size_t i = 0; i < alone->parameters().buffers().size(); ++i) {
    EXPECT_TRUE(model->parameters().buffers()[i].value.equal(alone->parameters().buffers()[i].value)) << i;
  }
}

/// A network that says what its forward pass was given, and fails on request.
class PartWitness final : public models::Model {
 public:
  struct Seen {
    std::mutex mutex;
    std::set<int64_t> first_samples;
    std::set<std::thread::id> threads;
    int with_gradients = 0;
    int with_autocast = 0;
    int64_t fails_at = -1;
  };

  explicit PartWitness(Seen& seen)
      : Model(replica::Parameters(1, at::MemoryFormat::Contiguous)), seen_(seen) {
    weight_ = parameters_.add("weight", {1}, replica::Init::constant(2));
  }

  models::Output forward(const at::Tensor& images, const kernels::Context& context) override {
    const std::lock_guard lock(seen_.mutex);
    seen_.first_samples.insert(context.first_sample);
    seen_.threads.insert(std::this_thread::get_id());
    seen_.with_gradients += at::GradMode::is_enabled() ? 1 : 0;
    seen_.with_autocast += at::autocast::is_autocast_enabled(at::kCPU) ? 1 : 0;
    if (context.first_sample == seen_.fails_at) throw Error("as asked");
    return {.logits = images * weight_};
  }

 private:
  Seen& seen_;
  at::Tensor weight_;
};

TEST(DataParallelModelTest, parts_know_their_samples_and_the_state_of_the_calling_thread) {
  PartWitness::Seen seen;
  const auto model = DataParallelModel::make([&] { return std::make_unique<PartWitness>(seen); }, 3, {});
  const at::Tensor images = at::ones({6, 2});
  {
    const replica::AutocastScope autocast(replica::Precision::kBf16, at::kCPU);
    const at::Tensor output = model->forward(images, {.first_sample = 12}).logits;
    output.sum().backward();
  }
  EXPECT_THAT(seen.first_samples, testing::ElementsAre(12, 14, 16));
  EXPECT_EQ(seen.threads.size(), 3u);
  EXPECT_EQ(seen.with_gradients, 3);
  EXPECT_EQ(seen.with_autocast, 3);
  // Every element once, from all devices.
  EXPECT_EQ(model->parameters().tensors()[0].grad().item<float>(), 12);

  model->forward(images, {});
  EXPECT_EQ(seen.with_autocast, 3);
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(model->forward(images, {}).logits.requires_grad());
  EXPECT_EQ(seen.with_gradients, 6);
}

TEST(DataParallelModelTest, what_fails_on_a_device_is_thrown_by_the_pass_and_the_next_one_works) {
  PartWitness::Seen seen;
  const auto model = DataParallelModel::make([&] { return std::make_unique<PartWitness>(seen); }, 3, {});
  seen.fails_at = 4;
  EXPECT_THROW(model->forward(at::ones({6, 2}), {}), Error);
  EXPECT_THROW(model->forward(at::ones({7, 2}), {}), Error);
  seen.fails_at = -1;
  EXPECT_EQ(model->forward(at::ones({6, 2}), {}).logits.sum().item<float>(), 24);
}

}  // namespace
}  // namespace lockstep
