#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/train/rows/row_trainee.h"

namespace lockstep {
namespace {

/// The parameters of a rank alone after some steps.
std::vector<float> trained(const std::string& precision, int64_t* parameter_bytes = nullptr) {
  train::SweepOptions sweep;
  sweep.models = {"lenet5"};
  sweep.batches = {4};
  sweep.ranks = {1};
  sweep.strategies = {"single"};
  sweep.controls = false;
  sweep.kernels = {"aten"};
  sweep.common.learning_rate = 0.1;
  train::RowPlan row = train::plan_rows(sweep).front();
  // The precision that a sweep allows on GPUs only gives the same on a CPU, slowly.
  row.precision = precision;
  train::RowTrainee trainee(row, nullptr);
  launch::Progress progress;
  for (int step = 0; step < 5; ++step) trainee.train_one_more(progress);
  if (parameter_bytes != nullptr) *parameter_bytes = trainee.memory().parameters;
  return trainee.values();
}

TEST(WeightCopiesTest, training_from_bf16_weights_gives_the_bits_of_autocast) {
  int64_t autocast_bytes = 0, pure_bytes = 0;
  const std::vector<float> autocast = trained("bf16", &autocast_bytes);
  EXPECT_EQ(trained("bf16_pure", &pure_bytes), autocast);
  EXPECT_NE(trained("fp32"), autocast);
  // Half as much again for the weights, nothing for the biases.
  EXPECT_GT(pure_bytes, autocast_bytes * 1.45);
  EXPECT_LE(pure_bytes, autocast_bytes * 1.5);
}

}  // namespace
}  // namespace lockstep
