#include <limits>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/train/step/step_loop.h"

#include "strategies/trained_replica.h"
#include "train/host_accelerator.h"

namespace lockstep {
namespace {

/// Time for which every batch keeps the device busy.
class BusyInput final : public inputs::Input {
 public:
  BusyInput(std::unique_ptr<inputs::Input> real, test::HostAccelerator& accelerator, double busy_s)
      : real_(std::move(real)), accelerator_(accelerator), busy_s_(busy_s) {}

  const inputs::Batch& next() override {
    accelerator_.busy(busy_s_);
    return real_->next();
  }

 private:
  std::unique_ptr<inputs::Input> real_;
  test::HostAccelerator& accelerator_;
  double busy_s_;
};

class AcceleratedStepTest : public testing::Test {
 protected:
  static test::TrainedReplica replica() {
    return test::make_replica({.model = "mlp", .strategy = "single"}, nullptr);
  }

  train::StepLoopResult run(test::TrainedReplica& of, train::StepLoopOptions options, bool stamped = false) {
    launch::Progress progress;
    return train::run_steps({.model = *of.model,
                             .input = *of.input,
                             .strategy = *of.strategy,
                             .stamp_phases = stamped,
                             .accelerator = &accelerator_},
                            options, progress);
  }

  void make_busy(test::TrainedReplica& of, double busy_s) {
    of.input = std::make_unique<BusyInput>(std::move(of.input), accelerator_, busy_s);
  }

  test::HostAccelerator accelerator_;
};

TEST_F(AcceleratedStepTest, steps_take_as_long_as_the_device_says) {
  test::TrainedReplica own = replica();
  make_busy(own, 0.02);
  const train::StepLoopResult result = run(own, {.pacing = {.warmup_steps = 2, .steps = 10}});
  ASSERT_EQ(result.step_s.size(), 10u);
  for (const double step_s : result.step_s) EXPECT_GE(step_s, 0.0199);
}

TEST_F(AcceleratedStepTest, the_host_gives_work_ahead_and_not_too_much) {
  test::TrainedReplica own = replica();
  make_busy(own, 0.2);
  run(own, {.pacing = {.warmup_steps = 0, .steps = 5}});
  // The ends of the step that runs, of two that wait, and where the clock was set.
  EXPECT_GE(accelerator_.most_marks(), 2u);
  EXPECT_LE(accelerator_.most_marks(), 4u);
}

TEST_F(AcceleratedStepTest, losses_come_late_but_each_as_its_own) {
  std::vector<double> at_once, late;
  const auto into = [](std::vector<double>& losses) {
    return train::StepHooks{.after_step = [&](double loss, int64_t) { losses.push_back(loss); }};
  };
  test::TrainedReplica own = replica();
  launch::Progress progress;
  train::run_steps({*own.model, *own.input, *own.strategy},
                   {.pacing = {.warmup_steps = 3, .steps = 9}, .hooks = into(at_once)}, progress);
  test::TrainedReplica other = replica();
  make_busy(other, 0.005);
  run(other, {.pacing = {.warmup_steps = 3, .steps = 9}, .hooks = into(late)});
  EXPECT_EQ(at_once.size(), 12u);
  EXPECT_EQ(late, at_once);
}

TEST_F(AcceleratedStepTest, losses_before_a_recording_are_each_their_own_too) {
  const auto into = [](std::vector<double>& losses) {
    return train::StepHooks{.after_step = [&](double loss, int64_t) { losses.push_back(loss); }};
  };
  std::vector<double> at_once, late;
  test::TrainedReplica own = replica();
  launch::Progress progress;
  train::run_steps({*own.model, *own.input, *own.strategy},
                   {.pacing = {.warmup_steps = 11, .steps = 4}, .hooks = into(at_once)}, progress);
  test::TrainedReplica other = replica();
  make_busy(other, 0.005);
  // As many as ddp wants.
  const train::StepLoopResult result =
      run(other, {.pacing = {.warmup_steps = 0, .steps = 4}, .hooks = into(late), .record_after = 11});
  EXPECT_EQ(late, at_once);
  EXPECT_EQ(result.loss_first, at_once.front());
}

TEST_F(AcceleratedStepTest, the_time_of_a_step_is_asked_for_once) {
  test::TrainedReplica own = replica();
  run(own, {.pacing = {.warmup_steps = 2, .steps = 10}});
  EXPECT_EQ(accelerator_.times_asked(), 12);
}

/// Counts batches.
class CountedInput final : public inputs::Input {
 public:
  CountedInput(std::unique_ptr<inputs::Input> real, int& batches)
      : real_(std::move(real)), batches_(batches) {}

  const inputs::Batch& next() override {
    ++batches_;
    return real_->next();
  }

 private:
  std::unique_ptr<inputs::Input> real_;
  int& batches_;
};

TEST_F(AcceleratedStepTest, a_step_that_is_not_timed_follows_each_pause_of_a_measurement) {
  int batches = 0;
  const auto trained = [&](train::StepLoopOptions options, bool on_gpu) {
    test::TrainedReplica own = replica();
    own.input = std::make_unique<CountedInput>(std::move(own.input), batches);
    batches = 0;
    launch::Progress progress;
    const train::StepLoopResult result = train::run_steps({.model = *own.model,
                                                           .input = *own.input,
                                                           .strategy = *own.strategy,
                                                           .accelerator = on_gpu ? &accelerator_ : nullptr},
                                                          std::move(options), progress);
    return static_cast<int>(result.warmup_s.size() + result.step_s.size());
  };
  EXPECT_EQ(trained({.pacing = {.warmup_steps = 2, .steps = 5}, .leads_in = true}, true), 7);
  EXPECT_EQ(batches, 8);
  EXPECT_EQ(trained({.pacing = {.warmup_steps = 2, .steps = 5}, .leads_in = true}, false), 7);
  EXPECT_EQ(batches, 7);
  // A training takes the steps that it asked for.
  EXPECT_EQ(trained({.pacing = {.warmup_steps = 2, .steps = 5}}, true), 7);
  EXPECT_EQ(batches, 7);
  EXPECT_EQ(trained({.pacing = {.warmup_steps = 2, .steps = 5}, .record_after = 3, .leads_in = true}, true),
            7);
  EXPECT_EQ(batches, 11);
  const int timed = trained({.pacing = {.precision_target = 0, .max_time_s = 0.3}, .leads_in = true}, true);
  EXPECT_GT(batches, timed);
}

TEST_F(AcceleratedStepTest, what_libraries_try_out_is_over_after_the_steps_that_are_certain_to_be_warm_up) {
  const auto batches_when_warm = [&](train::StepLoopOptions options) {
    std::vector<int> calls;
    int batches = 0;
    test::TrainedReplica own = replica();
    own.input = std::make_unique<CountedInput>(std::move(own.input), batches);
    options.warmed_up = [&] { calls.push_back(batches); };
    run(own, std::move(options));
    return calls;
  };
  using testing::ElementsAre;
  EXPECT_THAT(batches_when_warm({.pacing = {.warmup_steps = 4, .steps = 5}}), ElementsAre(4));
  EXPECT_THAT(batches_when_warm({.pacing = {.steps = 5}}), ElementsAre(3));
  EXPECT_THAT(batches_when_warm({.pacing = {.max_time_s = 0.1}}), ElementsAre(3));
  EXPECT_THAT(batches_when_warm({.pacing = {.warmup_steps = 0, .steps = 5}}), ElementsAre(0));
  EXPECT_THAT(batches_when_warm({.pacing = {.warmup_steps = 2, .steps = 5}, .record_after = 3}),
              ElementsAre(5));
}

TEST_F(AcceleratedStepTest, hits_are_counted_where_asked_for) {
  test::TrainedReplica own = replica();
  int64_t hits = 0;
  train::StepHooks hooks{.after_step = [&](double, int64_t of_step) { hits += of_step; }};
  run(own, {.pacing = {.warmup_steps = 0, .steps = 5}, .hooks = hooks});
  EXPECT_EQ(hits, 0);
  hooks.counts_hits = true;
  run(own, {.pacing = {.warmup_steps = 0, .steps = 40}, .hooks = hooks});
  // Few images, seen again and again.
  EXPECT_GT(hits, 40);
  EXPECT_LE(hits, 160);
}

TEST_F(AcceleratedStepTest, a_loss_that_is_not_finite_is_told_of_its_own_step) {
  test::TrainedReplica own = replica();
  make_busy(own, 0.005);
  const auto spoil = [&](int64_t step) {
    if (step != 4) return;
    own.model->parameters().tensors().front().detach().fill_(std::numeric_limits<float>::quiet_NaN());
  };
  try {
    run(own, {.pacing = {.warmup_steps = 0, .steps = 12}, .hooks = {.before_step = spoil}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("in step 5"));
  }
}

TEST_F(AcceleratedStepTest, phases_are_the_devices_and_sum_to_the_step) {
  test::TrainedReplica own = replica();
  make_busy(own, 0.02);
  const train::StepLoopResult result =
      run(own, {.pacing = {.warmup_steps = 2, .steps = 5}, .accumulate = 2}, /*stamped=*/true);
  ASSERT_EQ(result.stamps.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    const measure::StepStamps& step = result.stamps[i];
    EXPECT_NEAR(step.end_s - step.begin_s, result.step_s[i], 1e-9);
    // All that the device has to do comes with a batch.
    EXPECT_GE(step.earlier_input_s, 0.0199);
    EXPECT_GE(step.input_s - step.last_micro_batch_s(), 0.0199);
    EXPECT_GE(step.forward_s, step.input_s);
    EXPECT_GE(step.backward_s, step.forward_s);
    EXPECT_GE(step.combined_s, step.backward_s);
    EXPECT_GE(step.applied_s, step.combined_s);
    EXPECT_GE(step.end_s, step.applied_s);
  }
}

TEST_F(AcceleratedStepTest, a_recorded_step_trains_on_every_batch_as_if_it_were_not) {
  test::TrainedReplica own = replica();
  run(own, {.pacing = {.warmup_steps = 2, .steps = 5}, .record_after = 3});
  EXPECT_EQ(accelerator_.recordings(), 1);
  test::TrainedReplica other = replica();
  const train::StepLoopResult result = run(other, {.pacing = {.warmup_steps = 5, .steps = 5}});
  EXPECT_EQ(accelerator_.recordings(), 1);
  EXPECT_EQ(own.parameters(), other.parameters());
  EXPECT_LT(result.loss_last, result.loss_first);
}

/// Remembers the numbers of the steps that a network is told.
class Witness final : public models::Model {
 public:
  Witness(std::unique_ptr<models::Model> real, std::vector<int64_t>& steps)
      : Model(real->parameters()), real_(std::move(real)), steps_(steps) {}

  models::Output forward(const at::Tensor& images, const kernels::Context& context) override {
    steps_.push_back(context.step_on_device == nullptr ? context.step
                                                       : context.step_on_device->item<int64_t>());
    return real_->forward(images, context);
  }

 private:
  std::unique_ptr<models::Model> real_;
  std::vector<int64_t>& steps_;
};

TEST_F(AcceleratedStepTest, launches_of_a_recorded_step_are_counted_where_the_device_finds_it) {
  test::TrainedReplica own = replica();
  std::vector<int64_t> steps;
  own.model = std::make_unique<Witness>(std::move(own.model), steps);
  run(own, {.pacing = {.warmup_steps = 2, .steps = 5}, .record_after = 3});
  EXPECT_THAT(steps, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(AcceleratedStepTest, every_batch_is_counted_once_by_batch_norm) {
  test::TrainedReplica own =
      test::make_replica({.model = "resnet20", .strategy = "single", .batch = 2}, nullptr);
  run(own, {.pacing = {.warmup_steps = 1, .steps = 2}, .record_after = 2});
  int counters = 0;
  for (const replica::NamedTensor& buffer : own.model->parameters().buffers()) {
    if (buffer.value.scalar_type() != at::kLong) continue;
    EXPECT_EQ(buffer.value.item<int64_t>(), 5) << buffer.name;
    ++counters;
  }
  EXPECT_GT(counters, 10);
}

}  // namespace
}  // namespace lockstep
