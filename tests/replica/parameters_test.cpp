#include "lockstep/replica/parameters.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/equal.h>

#include "lockstep/base/error.h"

namespace lockstep::replica {
namespace {

using testing::ElementsAre;

TEST(ParametersTest, hands_out_trainable_leaves_in_order) {
  Parameters parameters(1, at::MemoryFormat::ChannelsLast);
  parameters.add("conv1.weight", {4, 3, 5, 5}, Init::normal(1));
  parameters.add("conv1.bias", {4}, Init::constant(0.5));
  parameters.add_buffer("bn1.running_var", {4}, 1);

  ASSERT_EQ(parameters.trainable().size(), 2);
  EXPECT_EQ(parameters.trainable()[0].name, "conv1.weight");
  EXPECT_EQ(parameters.trainable()[1].name, "conv1.bias");
  EXPECT_EQ(parameters.count(), 4 * 3 * 5 * 5 + 4);
  for (const at::Tensor& tensor : parameters.tensors()) {
    EXPECT_TRUE(tensor.requires_grad());
    EXPECT_TRUE(tensor.is_leaf());
    EXPECT_EQ(tensor.scalar_type(), at::kFloat);
  }
  EXPECT_TRUE(parameters.tensors()[1].eq(0.5).all().item<bool>());
}

TEST(ParametersTest, keeps_buffers_apart_and_untrained) {
  Parameters parameters(1, at::MemoryFormat::ChannelsLast);
  const at::Tensor variance = parameters.add_buffer("bn1.running_var", {4}, 1);
  const at::Tensor batches = parameters.add_buffer("bn1.num_batches_tracked", {}, 0, at::kLong);
  EXPECT_EQ(parameters.count(), 0);
  ASSERT_EQ(parameters.buffers().size(), 2);
  EXPECT_FALSE(variance.requires_grad());
  EXPECT_TRUE(variance.eq(1).all().item<bool>());
  EXPECT_EQ(batches.scalar_type(), at::kLong);
  EXPECT_EQ(batches.dim(), 0);
}

TEST(ParametersTest, lays_out_kernels_in_the_memory_format) {
  Parameters channels_last(1, at::MemoryFormat::ChannelsLast);
  EXPECT_THAT(channels_last.add("a", {4, 3, 5, 5}, Init::normal(1)).strides(), ElementsAre(75, 1, 15, 3));
  // A 1x1 kernel's bytes are the same in both formats; its strides must still tell which one is meant.
  EXPECT_THAT(channels_last.add("b", {4, 3, 1, 1}, Init::normal(1)).strides(), ElementsAre(3, 1, 3, 3));
  EXPECT_THAT(channels_last.add("c", {4, 3}, Init::normal(1)).strides(), ElementsAre(3, 1));

  Parameters contiguous(1, at::MemoryFormat::Contiguous);
  EXPECT_THAT(contiguous.add("a", {4, 3, 5, 5}, Init::normal(1)).strides(), ElementsAre(75, 25, 5, 1));
}

TEST(ParametersTest, draws_from_seed_and_name_alone) {
  const auto draw = [](uint64_t seed, const char* name, at::MemoryFormat format) {
    return Parameters(seed, format).add(name, {4, 3, 5, 5}, Init::normal(1));
  };
  const at::Tensor values = draw(1, "a", at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(at::equal(values, draw(1, "a", at::MemoryFormat::Contiguous)));
  EXPECT_FALSE(at::equal(values, draw(2, "a", at::MemoryFormat::ChannelsLast)));
  EXPECT_FALSE(at::equal(values, draw(1, "b", at::MemoryFormat::ChannelsLast)));

  Parameters others(1, at::MemoryFormat::ChannelsLast);
  others.add("earlier", {100}, Init::uniform(1));
  EXPECT_TRUE(at::equal(values, others.add("a", {4, 3, 5, 5}, Init::normal(1))));
}

TEST(ParametersTest, draws_the_distribution_that_was_asked_for) {
  Parameters parameters(1, at::MemoryFormat::Contiguous);
  const at::Tensor normal = parameters.add("normal", {100'000}, Init::normal(3));
  EXPECT_NEAR(normal.mean().item<double>(), 0, 5 * 3 / std::sqrt(1e5));
  EXPECT_NEAR(normal.std().item<double>(), 3, 5 * 3 / std::sqrt(2e5));
  const at::Tensor uniform = parameters.add("uniform", {100'000}, Init::uniform(3));
  EXPECT_NEAR(uniform.max().item<double>(), 3, 0.01);
  EXPECT_NEAR(uniform.min().item<double>(), -3, 0.01);
  EXPECT_NEAR(uniform.mean().item<double>(), 0, 5 * std::sqrt(3) / std::sqrt(1e5));
}

TEST(ParametersTest, refuses_a_name_twice) {
  Parameters parameters(1, at::MemoryFormat::Contiguous);
  parameters.add("a", {1}, Init::constant(0));
  EXPECT_THROW(parameters.add("a", {1}, Init::constant(0)), Error);
  EXPECT_THROW(parameters.add_buffer("a", {1}, 0), Error);
}

}  // namespace
}  // namespace lockstep::replica
