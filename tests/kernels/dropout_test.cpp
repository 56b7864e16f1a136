#include "lockstep/kernels/dropout.h"

#include <cmath>

#include <gtest/gtest.h>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>

namespace lockstep::kernels {
namespace {

constexpr int64_t kDropped = 1000;

at::Tensor drop(const std::string& layer, int64_t samples, const Context& context) {
  return Dropout(layer, 0.5)(at::ones({samples, kDropped}), context);
}

TEST(DropoutTest, a_mask_belongs_to_the_sample_not_to_the_split) {
  const at::Tensor joint = drop("fc", 4, {.step = 3});
  const at::Tensor parts =
      at::cat({drop("fc", 2, {.step = 3}), drop("fc", 2, {.step = 3, .first_sample = 2})}, /*dim=*/0);
  EXPECT_TRUE(at::equal(joint, parts));
  EXPECT_FALSE(at::equal(joint.select(0, 0), joint.select(0, 1)));
}

TEST(DropoutTest, seed_layer_and_step_have_masks_of_their_own) {
  const at::Tensor mask = drop("fc", 1, {});
  EXPECT_TRUE(at::equal(mask, drop("fc", 1, {})));
  EXPECT_FALSE(at::equal(mask, drop("fc", 1, {.seed = 2})));
  EXPECT_FALSE(at::equal(mask, drop("fc", 1, {.step = 1})));
  EXPECT_FALSE(at::equal(mask, drop("fc2", 1, {})));
}

TEST(DropoutTest, a_step_that_lies_in_memory_counts_as_one_that_was_told) {
  const at::Tensor in_memory = at::scalar_tensor(int64_t{3}, at::kLong);
  EXPECT_TRUE(at::equal(drop("fc", 2, {.step = 3}), drop("fc", 2, {.step_on_device = &in_memory})));
}

TEST(DropoutTest, what_is_left_makes_up_for_what_is_dropped) {
  constexpr int64_t kMany = 100'000;
  constexpr double kProbability = 0.2;
  const at::Tensor x = at::ones({1, kMany}).set_requires_grad(true);
  const at::Tensor y = Dropout("fc", kProbability)(x, {});
  const at::Tensor kept = y.detach().masked_select(y.detach().ne(0));
  EXPECT_TRUE(kept.eq(1 / (1 - kProbability)).all().item<bool>());
  // Within 5 standard deviations.
  EXPECT_NEAR(static_cast<double>(kept.numel()), (1 - kProbability) * kMany,
              5 * std::sqrt(kProbability * (1 - kProbability) * kMany));
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y.detach()));
}

TEST(DropoutTest, drops_nothing_outside_of_training_or_when_told_not_to) {
  for (const Context& context : {Context{.training = false}, Context{.dropout = false}}) {
    EXPECT_TRUE(at::equal(drop("fc", 2, context), at::ones({2, kDropped})));
  }
}

}  // namespace
}  // namespace lockstep::kernels
