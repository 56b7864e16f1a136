// Trainings on real data: the digits, and made-up files of CIFAR-10, which are augmented.

#include <fstream>

#include <gmock/gmock.h>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/train/rows/row_input.h"
#include "lockstep/train/training/evaluation.h"

#include "data/files.h"
#include "strategies/trained_replica.h"
#include "train/training_case.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;

const std::string kDigits = LOCKSTEP_DIGITS;

class DataTrainingTest : public TrainingTest {
 protected:
  /// 60 images to train with, 10 to evaluate with.
  std::string cifar10() const {
    const std::string folder = path("cifar10");
    std::filesystem::create_directories(folder);
    for (int i = 1; i <= 5; ++i) {
      std::ofstream(folder + "/data_batch_" + std::to_string(i) + ".bin", std::ios::binary)
          << data::cifar10_records(12, i);
    }
    std::ofstream(folder + "/test_batch.bin", std::ios::binary) << data::cifar10_records(10, 0);
    return folder;
  }

  static TrainingPlan digits_plan(const std::string& strategy, int ranks, int global_batch) {
    TrainingPlan plan = plan_of({.strategy = strategy, .ranks = ranks, .data = kDigits});
    plan.row.batch_per_rank = global_batch / ranks;
    plan.steps_per_epoch = look_at_input(plan.row, /*evaluates=*/true).steps_per_epoch;
    return plan;
  }
};

TEST_F(DataTrainingTest, an_epoch_is_one_pass_over_the_data) {
  EXPECT_EQ(digits_plan("ddp", 2, 32).steps_per_epoch, 1500 / 32);
  RowPlan row = digits_plan("ddp", 2, 32).row;
  row.accumulate = 4;
  // 46 batches are 11 steps, and the rest of the pass is left out.
  EXPECT_EQ(look_at_input(row, false).steps_per_epoch, 11);
  EXPECT_THAT(look_at_input(row, false).data,
              testing::StartsWith("MNIST, 1500 samples in 10 classes, labels #"));
}

TEST_F(DataTrainingTest, what_was_seen_is_counted_and_learned) {
  TrainingPlan plan = digits_plan("ddp", 2, 50);
  plan.schedule = {.learning_rate = 0.02, .epochs = 4};
  plan.evaluate = true;
  const TrainingResult result = train_ranks(plan);
  ASSERT_EQ(result.epochs.size(), 4U);
  EXPECT_EQ(result.epochs.back().steps, 4 * 30);
  EXPECT_GT(result.epochs.back().training_accuracy.value(), 0.9);
  EXPECT_GT(*result.epochs.back().evaluation_accuracy, 0.85);
  // Whole samples of all ranks: 1,500 of training, 297 of evaluation.
  const auto whole = [](double share, double count) {
    return std::abs(share * count - std::round(share * count));
  };
  for (const results::EpochRecord& epoch : result.epochs) {
    EXPECT_LT(whole(epoch.training_accuracy.value(), 1500), 1e-9);
    EXPECT_LT(whole(*epoch.evaluation_accuracy, 297), 1e-9);
  }
}

class EvaluationTest : public DataTrainingTest, public testing::WithParamInterface<int> {};

// 297 samples in batches of 48: the last global batch leaves some ranks less, and some nothing.
TEST_P(EvaluationTest, every_sample_is_evaluated_once_over_all_ranks) {
  const models::ModelInfo& info = models::registry().get("lenet5");
  const RowPlan alone = digits_plan("single", 1, 48).row;
  at::set_num_threads(1);
  const Tally expected = Evaluation(alone, nullptr).run(*info.create({.seed = 1}));
  ASSERT_EQ(expected.samples, 297);
  const RowPlan row = digits_plan("ddp", GetParam(), 48 / GetParam() * GetParam()).row;
  test::with_thread_ranks(GetParam(), [&](comm::Communicator& group) {
    const std::unique_ptr<models::Model> model = info.create({.seed = 1});
    Evaluation evaluation(row, &group);
    for (int i = 0; i < 2; ++i) {
      const Tally found = evaluation.run(*model);
      EXPECT_EQ(found.samples, expected.samples);
      EXPECT_EQ(found.correct, expected.correct);
      EXPECT_NEAR(found.loss_sum, expected.loss_sum, 1e-4 * expected.loss_sum);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(ranks, EvaluationTest, testing::Values(1, 2, 3, 4, 7));

class ResumeOnDataTest : public DataTrainingTest, public testing::WithParamInterface<const char*> {};

// Shuffled, shifted and mirrored by the epoch that a step lies in.
TEST_P(ResumeOnDataTest, a_resumed_training_sees_what_would_have_come) {
  const std::string strategy = GetParam();
  TrainingPlan plan = plan_of(
      {.strategy = strategy, .ranks = strategy == "single" ? 1 : 2, .model = "trivial", .data = cifar10()});
  ASSERT_EQ(plan.steps_per_epoch, strategy == "single" ? 15 : 7);
  plan.schedule.epochs = 2;
  expect_same_bits_resumed(plan, {plan.steps_per_epoch - 1, plan.steps_per_epoch, plan.steps_per_epoch + 2});
}

INSTANTIATE_TEST_SUITE_P(all, ResumeOnDataTest, testing::Values("single", "ddp"));

TEST_F(DataTrainingTest, data_may_lie_elsewhere_but_must_be_the_same) {
  TrainingPlan plan = digits_plan("ddp", 2, 300);
  plan.checkpoint_path = path("a.safetensors");
  plan.stop_after = 1;
  train_ranks(plan);
  plan.resume_path = plan.checkpoint_path;
  plan.row.data = kDigits + "/../digits";
  EXPECT_EQ(read_checkpoint_of(plan).head().step, 1);
  plan.data = "MNIST, 60000 samples";
  try {
    read_checkpoint_of(plan);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("data MNIST, 1500 samples in 10 classes"));
  }
}

TEST_F(DataTrainingTest, without_samples_to_evaluate_with_is_refused_before_it_starts) {
  const std::string folder = cifar10();
  RowPlan row = plan_of({.strategy = "ddp", .model = "trivial", .data = folder}).row;
  std::filesystem::remove(folder + "/test_batch.bin");
  EXPECT_EQ(look_at_input(row, false).steps_per_epoch, 7);
  EXPECT_THROW(look_at_input(row, true), Error);
}

}  // namespace
}  // namespace lockstep::train
