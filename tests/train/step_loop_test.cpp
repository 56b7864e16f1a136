#include "lockstep/train/step/step_loop.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/full.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

TEST(StepLoopTest, nothing_falls_between_two_steps) {
  constexpr int kSteps = 20;
  static constexpr double kPause_s = 0.01;
  test::TrainedReplica replica = test::make_replica({.model = "lenet5", .strategy = "single"}, nullptr);
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::duration<double>(kPause_s)); };
  launch::Progress progress;
  const double begin_s = now_s();
  const train::StepLoopResult result =
      train::run_steps({.model = *replica.model, .input = *replica.input, .strategy = *replica.strategy},
                       {.pacing = {.warmup_steps = 0, .steps = kSteps},
                        .hooks = {.before_step = [&](int64_t /*steps*/) { pause(); },
                                  .after_step = [&](double /*loss*/, int64_t /*hits*/) { pause(); }}},
                       progress);
  const double whole_s = now_s() - begin_s;
  ASSERT_EQ(result.step_s.size(), static_cast<size_t>(kSteps));
  const double sum_s = std::accumulate(result.step_s.begin(), result.step_s.end(), 0.0);
  EXPECT_LE(sum_s, whole_s);
  // The pauses between two steps belong to one of them; a first and a last one may lie outside.
  EXPECT_GE(sum_s, (2 * kSteps - 2) * kPause_s);
}

// Every fourth step is slow, and all samples are alike.
TEST(StepLoopTest, a_sample_is_the_mean_step_of_a_period) {
  static constexpr double kPause_s = 0.04;
  test::TrainedReplica replica = test::make_replica({.model = "lenet5", .strategy = "single"}, nullptr);
  launch::Progress progress;
  int steps = 0;
  const train::StepLoopResult result = train::run_steps(
      {.model = *replica.model, .input = *replica.input, .strategy = *replica.strategy},
      {.pacing = {.warmup_steps = 1, .steps = 10, .period = 4},
       .hooks = {.before_step =
                     [&](int64_t step) {
                       ++steps;
                       if (step % 4 == 1)
                         std::this_thread::sleep_for(std::chrono::duration<double>(kPause_s));
                     }}},
      progress);
  EXPECT_EQ(steps, 16);
  EXPECT_EQ(result.warmup_s.size(), 1U);
  ASSERT_EQ(result.step_s.size(), 3U);
  for (const double step_s : result.step_s) EXPECT_GE(step_s, kPause_s / 4);
  EXPECT_THAT(result.ending.stopped, testing::HasSubstr("12 of whole periods"));
}

TEST(StepLoopTest, the_loss_falls_on_fixed_batches) {
  test::TrainedReplica replica = test::make_replica({.model = "lenet5", .strategy = "single"}, nullptr);
  const train::StepLoopResult result = replica.train(60);
  EXPECT_TRUE(std::isfinite(result.loss_first));
  EXPECT_LT(result.loss_last, result.loss_first);
}

TEST(StepLoopTest, a_loss_that_is_not_finite_ends_the_run_and_is_named) {
  test::TrainedReplica replica = test::make_replica({.model = "mlp", .strategy = "single"}, nullptr);
  replica.model->parameters().tensors().front().detach().fill_(std::numeric_limits<float>::quiet_NaN());
  try {
    replica.train(3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 0"));
    EXPECT_THAT(error.what(), testing::HasSubstr("step 1"));
  }
}

TEST(StepLoopTest, an_uncoupled_rank_goes_on_until_the_last_has_its_samples) {
  std::atomic<size_t> fast_steps{0};
  test::with_thread_ranks(2, [&](comm::Communicator& communicator) {
    const bool slow = communicator.rank() == 1;
    // The slow rank has 64 times the work per step.
    test::TrainedReplica replica = test::make_replica(
        {.model = "lenet5", .strategy = "independent", .batch = slow ? 256 : 4}, &communicator);
    const train::StepLoopResult result = replica.train(5, /*coupled=*/false);
    if (!slow) fast_steps = result.step_s.size();
  });
  EXPECT_GT(fast_steps, 5u);
}

}  // namespace
}  // namespace lockstep
