#include "lockstep/replica/flat_memory.h"

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand_like.h>

#include "lockstep/base/error.h"

namespace lockstep::replica {
namespace {

Parameters sample_parameters() {
  at::set_num_threads(1);
  Parameters parameters(1, at::MemoryFormat::ChannelsLast);
  parameters.add("conv", {4, 3, 5, 5}, Init::normal(1));
  parameters.add("bias", {4}, Init::normal(1));
  parameters.add("fc", {6, 8}, Init::normal(1));
  return parameters;
}

TEST(FlatMemoryTest, parameters_keep_values_and_strides_and_lie_in_one_buffer) {
  Parameters parameters = sample_parameters();
  std::vector<at::Tensor> before;
  std::vector<std::vector<int64_t>> strides;
  for (const at::Tensor& tensor : parameters.tensors()) {
    before.push_back(tensor.detach().clone());
    strides.push_back(tensor.strides().vec());
  }
  const FlatMemory memory(parameters, {2, 0, 1});
  EXPECT_EQ(memory.count(), parameters.count());
  const auto* begin = memory.values({0, memory.count()}).const_data_ptr<float>();
  for (size_t i = 0; i < 3; ++i) {
    const at::Tensor tensor = parameters.tensors()[i];
    EXPECT_TRUE(at::equal(tensor, before[i]));
    EXPECT_EQ(tensor.strides().vec(), strides[i]);
    EXPECT_EQ(tensor.const_data_ptr<float>(), begin + memory.range_of(i).begin);
    EXPECT_EQ(tensor.grad().strides().vec(), strides[i]);
  }
  EXPECT_EQ(memory.range_of(2).begin, 0);
  EXPECT_EQ(memory.range_of(0).begin, 48);
}

TEST(FlatMemoryTest, applying_ranges_is_what_the_list_optimizer_does) {
  Parameters flat = sample_parameters();
  Parameters list = sample_parameters();
  FlatMemory memory(flat, {1, 2, 0});
  Sgd sgd(list.tensors(), {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < 3; ++i) {
      const at::NoGradGuard no_grad;
      const at::Tensor gradient = at::rand_like(list.tensors()[i]);
      list.tensors()[i].mutable_grad() = gradient;
      memory.gradient_view(i).copy_(gradient);
    }
    sgd.step();
    for (const Range range : {Range{0, 17}, Range{17, 100}, Range{100, memory.count()}}) {
      memory.apply(range, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}, step == 0);
    }
    if (step == 1) memory.reorder({0, 1, 2});
  }
  // The split into vectors and a remainder differs, and with it a rounding.
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(at::allclose(flat.tensors()[i], list.tensors()[i], 1e-6, 1e-6)) << i;
  }
}

TEST(FlatMemoryTest, momenta_of_a_part_update_that_part_as_all_of_them_do) {
  Parameters some = sample_parameters();
  Parameters every = sample_parameters();
  FlatMemory part(some, {2, 1, 0}, 7);
  FlatMemory whole(every, {2, 1, 0});
  const std::vector<Range> kept{{5, 40}, {60, 200}};
  part.keep_momenta_of(kept);
  EXPECT_EQ(part.momentum_bytes(), 4 * 175);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor gradients = at::rand_like(whole.gradients({0, whole.count()}));
    whole.gradients({0, whole.count()}).copy_(gradients);
    part.gradients({0, whole.count()}).copy_(gradients);
    for (const Range range : {Range{5, 20}, Range{20, 40}, Range{60, 200}}) {
      part.apply(range, {}, step == 0);
      whole.apply(range, {}, step == 0);
    }
  }
  EXPECT_TRUE(at::equal(part.values({0, part.count()}), whole.values({0, whole.count()})));
  EXPECT_THROW(part.apply({30, 50}, {}, false), Error);
  EXPECT_THROW(part.reorder({0, 1, 2}), Error);
}

TEST(FlatMemoryTest, padding_is_zero_and_to_the_multiple) {
  Parameters parameters = sample_parameters();
  const FlatMemory memory(parameters, {2, 1, 0}, 128);
  ASSERT_EQ(memory.count(), 352);
  ASSERT_EQ(memory.padded_count(), 384);
  EXPECT_EQ(memory.values({352, 384}).abs().sum().item<float>(), 0);
  EXPECT_EQ(memory.gradients({352, 384}).abs().sum().item<float>(), 0);
}

TEST(FlatMemoryTest, an_order_that_misses_a_parameter_is_refused) {
  Parameters parameters = sample_parameters();
  EXPECT_THROW(FlatMemory(parameters, {0, 1}), Error);
  EXPECT_THROW(FlatMemory(parameters, {0, 1, 1}), Error);
}

}  // namespace
}  // namespace lockstep::replica
