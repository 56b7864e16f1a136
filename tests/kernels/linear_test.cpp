#include "lockstep/kernels/linear.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/replica/precision.h"

namespace lockstep::kernels {
namespace {

/// A layer of 5 inputs and 3 outputs after one backward pass over 4 samples.
class LinearTest : public testing::Test {
 protected:
  LinearTest() : x_(at::randn({4, 5}).set_requires_grad(true)), coefficients_(at::randn({4, 3})) {}

  /// Gradients that autograd leaves at the weight, the bias and x.
  std::vector<at::Tensor> gradients(replica::Precision precision = replica::Precision::kFp32) {
    at::Tensor loss;
    {
      const replica::AutocastScope autocast(precision, at::kCPU);
      loss = (layer_(x_, {}).to(at::kFloat) * coefficients_).sum();
    }
    return torch::autograd::grad({loss}, {weight(), parameters_.tensors()[1], x_});
  }

  at::Tensor weight() const { return parameters_.tensors()[0]; }

  replica::Parameters parameters_{1, at::MemoryFormat::Contiguous};
  Linear layer_{parameters_, "fc", 5, 3};
  at::Tensor x_;
  at::Tensor coefficients_;
};

TEST_F(LinearTest, leaves_the_gradient_of_its_weight_in_the_place_it_was_told_scaled) {
  const std::vector<at::Tensor> plain = gradients();
  const at::Tensor place = at::full({3, 5}, 7.0);
  parameters_.place_gradient(0, {.tensor = place, .scale = 0.25});
  const std::vector<at::Tensor> placed = gradients();
  EXPECT_EQ(placed[0].data_ptr(), place.data_ptr());
  EXPECT_TRUE(at::equal(place, plain[0] * 0.25));
  EXPECT_TRUE(at::equal(placed[1], plain[1]));
  EXPECT_TRUE(at::equal(placed[2], plain[2]));
}

TEST_F(LinearTest, adds_to_what_lies_there_where_that_is_wanted) {
  const at::Tensor plain = gradients()[0];
  const at::Tensor place = at::full({3, 5}, 7.0);
  parameters_.place_gradient(0, {.tensor = place, .scale = 0.5, .add = true});
  gradients();
  EXPECT_TRUE(at::allclose(place, plain * 0.5 + 7));
}

TEST_F(LinearTest, without_a_place_again_gradients_are_autograds) {
  const at::Tensor plain = gradients()[0];
  const at::Tensor place = at::full({3, 5}, 7.0);
  parameters_.place_gradient(0, {.tensor = place});
  parameters_.place_gradient(0, {});
  EXPECT_TRUE(at::equal(gradients()[0], plain));
  EXPECT_TRUE(place.eq(7).all().item<bool>());
}

TEST_F(LinearTest, a_gradient_computed_in_bf16_is_autograds) {
  const at::Tensor plain = gradients(replica::Precision::kBf16)[0];
  const at::Tensor place = at::full({3, 5}, 7.0);
  parameters_.place_gradient(0, {.tensor = place});
  EXPECT_TRUE(at::equal(gradients(replica::Precision::kBf16)[0], plain));
  EXPECT_TRUE(place.eq(7).all().item<bool>());
}

TEST_F(LinearTest, another_batch_may_have_been_seen_before_backward) {
  const at::Tensor place = at::full({3, 5}, 7.0);
  const at::Tensor plain = gradients()[0];
  parameters_.place_gradient(0, {.tensor = place});
  at::Tensor loss = (layer_(x_, {}) * coefficients_).sum();
  layer_(at::randn({4, 5}), {});
  torch::autograd::grad({loss}, {weight()});
  EXPECT_TRUE(at::equal(place, plain));
}

}  // namespace
}  // namespace lockstep::kernels
