#include <functional>

#include <gtest/gtest.h>

#include "lockstep/train/rows/row_trainee.h"

namespace lockstep {
namespace {

/// The parameters of a rank alone after some steps. `prepare` is called before the first one.
std::vector<float> trained(const std::string& precision, int64_t* parameter_bytes = nullptr,
                           const std::function<void(replica::Parameters&)>& prepare = {}) {
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
  if (prepare) prepare(trainee.model().parameters());
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

TEST(WeightCopiesTest, gradients_of_copies_can_be_had_as_they_are) {
  int calls = 0;
  const std::vector<float> taken = trained("bf16_pure", nullptr, [&](replica::Parameters& parameters) {
    for (const size_t index : parameters.narrowable()) {
      parameters.set_narrow_gradient_sink(index, [&calls, &parameters, index](const at::Tensor& gradient) {
        EXPECT_EQ(gradient.scalar_type(), at::kBFloat16);
        ++calls;
        // As autograd would have done.
        at::Tensor parameter = parameters.trainable()[index].value;
        EXPECT_FALSE(parameter.grad().defined());
        parameter.mutable_grad() = gradient.to(at::kFloat);
      });
    }
  });
  // lenet5 has five layers with weights.
  EXPECT_EQ(calls, 5 * 5);
  EXPECT_EQ(taken, trained("bf16_pure"));
}

}  // namespace
}  // namespace lockstep
