#include "lockstep/replica/loss_scale.h"

#include <limits>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

namespace lockstep::replica {
namespace {

LossScale sample_scale(const LossScaleOptions& options = {.initial = 8, .growth_interval = 3}) {
  at::set_num_threads(1);
  return LossScale(at::kCPU, options);
}

double value_of(const LossScale& scale) {
  return scale.scaled(at::ones({})).item<double>();
}

void step(LossScale& scale, float gradient) {
  scale.unscale({at::full({5}, gradient)});
  scale.update();
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LossScaleTest, gradients_of_the_scaled_loss_come_back_as_those_of_the_loss) {
  LossScale scale = sample_scale();
  const at::Tensor parameter = at::full({4}, 3.0F).set_requires_grad(true);
  const at::Tensor loss = parameter.mul(parameter).sum();
  const at::Tensor scaled = scale.scaled(loss);
  EXPECT_EQ(scaled.sizes(), loss.sizes());
  EXPECT_EQ(scaled.item<float>(), 8 * 36);
  scaled.backward();
  EXPECT_TRUE(at::equal(parameter.grad(), at::full({4}, 48.0F)));
  scale.unscale({parameter.grad()});
  EXPECT_TRUE(at::equal(parameter.grad(), at::full({4}, 6.0F)));
  EXPECT_EQ(scale.overflow().item<float>(), 0);
}

TEST(LossScaleTest, grows_after_so_many_good_steps_in_a_row_and_shrinks_after_a_bad_one) {
  LossScale scale = sample_scale();
  const float bad = kInfinity;
  const std::pair<float, double> steps[] = {{1, 8}, {1, 8}, {1, 16}, {1, 16},  {1, 16}, {bad, 8},
                                            {1, 8}, {1, 8}, {1, 16}, {bad, 8}, {bad, 4}};
  for (const auto& [gradient, expected] : steps) {
    step(scale, gradient);
    EXPECT_EQ(value_of(scale), expected);
    EXPECT_EQ(scale.overflow().item<float>(), 0);
  }
}

TEST(LossScaleTest, one_bad_tensor_of_several_is_enough_and_stays_noted_until_the_update) {
  LossScale scale = sample_scale();
  scale.unscale({at::ones({3}), at::full({100}, std::numeric_limits<float>::quiet_NaN())});
  scale.unscale({at::ones({3})});
  EXPECT_EQ(scale.overflow().item<float>(), 1);
  scale.update();
  EXPECT_EQ(value_of(scale), 4);
}

}  // namespace
}  // namespace lockstep::replica
