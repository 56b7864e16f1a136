#include "lockstep/replica/loss_scale.h"

#include <limits>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/ones.h>

#include "lockstep/replica/flat_memory.h"

namespace lockstep::replica {
namespace {

LossScale sample_scale(const LossScaleOptions& options = {.initial = 8, .growth_interval = 3}) {
  at::set_num_threads(1);
  return LossScale(at::kCPU, options);
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
    EXPECT_EQ(scale.value(), expected);
    EXPECT_EQ(scale.overflow().item<float>(), 0);
  }
  EXPECT_EQ(scale.steps_left_out(), 3);
}

TEST(LossScaleTest, one_bad_tensor_of_several_is_enough_and_stays_noted_until_the_update) {
  LossScale scale = sample_scale();
  scale.unscale({at::ones({3}), at::full({100}, std::numeric_limits<float>::quiet_NaN())});
  scale.unscale({at::ones({3})});
  EXPECT_EQ(scale.overflow().item<float>(), 1);
  scale.update();
  EXPECT_EQ(scale.value(), 4);
}

TEST(LossScaleTest, shards_agree_by_the_largest_overflow) {
  // Two ranks that each see half of the sums; the maximum is what an all-reduce makes of the two.
  LossScale with = sample_scale();
  LossScale without = sample_scale();
  with.unscale({at::full({2}, kInfinity)});
  without.unscale({at::ones({2})});
  without.overflow().copy_(at::max(with.overflow(), without.overflow()));
  for (LossScale* scale : {&with, &without}) {
    scale->update();
    EXPECT_EQ(scale->value(), 4);
  }
}

TEST(LossScaleTest, an_overflow_in_one_bucket_leaves_out_all_of_them) {
  Parameters parameters(1, at::MemoryFormat::Contiguous);
  parameters.add("a", {64}, Init::normal(1));
  FlatMemory memory(parameters, {0});
  SgdOptions options{.learning_rate = 0.1};
  options.loss_scale = std::make_shared<LossScale>(at::Device(at::kCPU));
  const std::vector<Range> buckets{{0, 16}, {16, 64}};
  const at::Tensor before = memory.values({0, 64}).clone();
  for (const float bad : {kInfinity, 1.0F}) {
    memory.gradients({0, 64}).fill_(1);
    memory.gradients({40, 41}).fill_(bad);
    for (const Range& bucket : buckets) options.loss_scale->unscale({memory.gradients(bucket)});
    for (const Range& bucket : buckets) memory.apply(bucket, options, /*first_step=*/true);
    options.loss_scale->update();
    EXPECT_EQ(at::equal(memory.values({0, 64}), before), bad == kInfinity);
  }
}

}  // namespace
}  // namespace lockstep::replica
