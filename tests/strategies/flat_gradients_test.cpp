#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>

#include "lockstep/strategies/buckets.h"

namespace lockstep::strategies {
namespace {

/// Parameters of several shapes, the gradient of one of which comes in another order than it has. The same
/// values every time; hooks are theirs as long as they live.
replica::Parameters parameters_of_several_shapes() {
  replica::Parameters parameters(3, at::MemoryFormat::ChannelsLast);
  parameters.add("conv", {4, 3, 2, 2}, replica::Init::normal(1));
  parameters.add("bias", {4}, replica::Init::normal(1));
  parameters.add("scale", {4, 4}, replica::Init::normal(1));
  return parameters;
}

class FlatGradientsTest : public testing::Test {
 protected:
  FlatGradientsTest() {
    at::set_num_threads(1);
    x_ = at::rand({2, 3, 5, 5});
  }

  /// The flat gradients after the second step of so many micro-batches.
  at::Tensor train(Copying copying, int micro_batches, double scale) const {
    replica::Parameters parameters = parameters_of_several_shapes();
    replica::FlatMemory memory(parameters, {2, 0, 1});
    std::vector<size_t> final_order;
    FlatGradients gradients(parameters, memory, scale, copying,
                            [&](size_t index) { final_order.push_back(index); });
    for (int step = 0; step < 2; ++step) {
      final_order.clear();
      gradients.begin_step();
      for (int i = 0; i < micro_batches; ++i) {
        gradients.begin_backward(i == micro_batches - 1);
        loss(parameters, 1 + step + i).backward();
      }
      EXPECT_EQ(final_order.size(), 3u);
      gradients.fill_places();
    }
    return memory.gradients({0, memory.count()}).clone();
  }

  at::Tensor loss(const replica::Parameters& parameters, double factor) const {
    const std::vector<at::Tensor> all = parameters.tensors();
    const at::Tensor y = at::conv2d(x_ * factor, all[0], all[1]);
    return (y * all[2].t().contiguous()).square().sum();
  }

  at::Tensor x_;
};

TEST_F(FlatGradientsTest, copied_together_they_have_the_bits_that_they_have_copied_one_by_one) {
  for (const int micro_batches : {1, 3}) {
    for (const double scale : {1.0, 0.25, 1.0 / 3}) {
      const at::Tensor each = train(Copying::kEach, micro_batches, scale);
      EXPECT_GT(each.abs().min().item<float>(), 0);
      EXPECT_TRUE(at::equal(each, train(Copying::kTogether, micro_batches, scale)))
          << micro_batches << " micro-batches, scaled by " << scale;
    }
  }
}

TEST_F(FlatGradientsTest, gradients_of_narrow_copies_are_widened_as_they_are_copied) {
  replica::Parameters parameters = parameters_of_several_shapes();
  const auto sink = parameters.narrow_gradient_sink("scale");
  parameters.narrow_copy("scale");
  replica::FlatMemory memory(parameters, {2, 0, 1});
  const at::Tensor first = at::rand({4, 4}).to(at::kBFloat16);
  const at::Tensor second = at::rand({4, 4}).to(at::kBFloat16);
  {
    std::vector<size_t> final_order;
    FlatGradients gradients(parameters, memory, 0.5, Copying::kTogether,
                            [&](size_t index) { final_order.push_back(index); });
    gradients.begin_step();
    gradients.begin_backward(false);
    (*sink)(first);
    gradients.begin_backward(true);
    (*sink)(second);
    gradients.fill_places();
    EXPECT_EQ(final_order, std::vector<size_t>{2});
    EXPECT_TRUE(at::equal(memory.gradient_view(2), (first.to(at::kFloat) + second.to(at::kFloat)) * 0.5));
  }
  EXPECT_FALSE(*sink);
  // One by one, they are widened before.
  replica::Parameters others = parameters_of_several_shapes();
  const auto unused = others.narrow_gradient_sink("scale");
  others.narrow_copy("scale");
  replica::FlatMemory flat(others, {2, 0, 1});
  const FlatGradients each(others, flat, 1, Copying::kEach, [](size_t) {});
  EXPECT_FALSE(*unused);
}

TEST_F(FlatGradientsTest, what_a_step_left_behind_is_not_of_the_next) {
  replica::Parameters parameters = parameters_of_several_shapes();
  replica::FlatMemory memory(parameters, {2, 0, 1});
  FlatGradients gradients(parameters, memory, 1, Copying::kTogether, [](size_t) {});
  gradients.begin_step();
  loss(parameters, 2).backward();
  gradients.begin_step();
  gradients.fill_places();
  EXPECT_EQ(memory.gradients({0, memory.count()}).abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace lockstep::strategies
