#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/kernels/block_steps.h"
#include "lockstep/kernels/conv.h"
#include "lockstep/kernels/linear.h"
#include "lockstep/replica/precision.h"
#include "lockstep/replica/weight_copies.h"

namespace lockstep::kernels {
namespace {

/// A convolution and a linear layer after it.
class NarrowWeightTest : public testing::Test {
 protected:
  struct Pass {
    at::Tensor out;
    /// Gradients of all parameters, and of the images.
    std::vector<at::Tensor> gradients;
  };

  /// Under autocast, with the copies where there are any.
  Pass pass(bool with_copies) {
    Pass made;
    {
      const replica::AutocastScope autocast(replica::Precision::kBf16, at::kCPU);
      const Context context{.weight_copies = with_copies};
      made.out = fc_(conv_(images_, context).flatten(1), context);
    }
    EXPECT_EQ(made.out.scalar_type(), at::kBFloat16);
    std::vector<at::Tensor> inputs = parameters_.tensors();
    inputs.push_back(images_);
    made.gradients = torch::autograd::grad({(made.out.to(at::kFloat) * coefficients_).sum()}, inputs);
    return made;
  }

  static void expect_same(const Pass& a, const Pass& b) {
    EXPECT_TRUE(at::equal(a.out, b.out));
    for (size_t i = 0; i < a.gradients.size(); ++i) {
      EXPECT_EQ(a.gradients[i].scalar_type(), at::kFloat) << i;
      EXPECT_TRUE(at::equal(a.gradients[i], b.gradients[i])) << i;
    }
  }

  void change_weights() {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& tensor : parameters_.tensors()) tensor.add_(at::randn(tensor.sizes()));
  }

  replica::Parameters parameters_{1, at::MemoryFormat::ChannelsLast};
  ConvShape shape_{.in_channels = 3, .out_channels = 4, .kernel = {3, 3}};
  Conv2d conv_{parameters_, "conv", shape_, LayerInit{replica::Init::normal(1), replica::Init::normal(1)}};
  Linear fc_{parameters_, "fc", 4 * 6 * 6, 5};
  at::Tensor images_ =
      at::randn({2, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast).set_requires_grad(true);
  at::Tensor coefficients_ = at::randn({2, 5});
};

TEST_F(NarrowWeightTest, copies_give_the_bits_of_autocast) {
  const Pass plain = pass(false);
  replica::WeightCopies copies(parameters_, at::kBFloat16);
  // The two weights, not the biases.
  EXPECT_EQ(copies.bytes(), 2 * (4 * 3 * 3 * 3 + 5 * 4 * 6 * 6));
  copies.refresh();
  expect_same(pass(true), plain);
}

TEST_F(NarrowWeightTest, copies_are_as_new_as_their_last_refresh) {
  replica::WeightCopies copies(parameters_, at::kBFloat16);
  copies.refresh();
  change_weights();
  EXPECT_FALSE(at::equal(pass(true).out, pass(false).out));
  copies.refresh();
  expect_same(pass(true), pass(false));
}

TEST_F(NarrowWeightTest, a_pass_that_does_not_know_of_copies_uses_none) {
  replica::WeightCopies copies(parameters_, at::kBFloat16);
  // Never refreshed: whatever lies there.
  const Pass plain = pass(false);
  copies.refresh();
  expect_same(pass(true), plain);
}

TEST_F(NarrowWeightTest, without_copies_again_weights_are_autocasts) {
  { replica::WeightCopies(parameters_, at::kBFloat16).refresh(); }
  change_weights();
  expect_same(pass(true), pass(false));
}

TEST_F(NarrowWeightTest, weights_that_were_laid_out_anew_are_found) {
  replica::WeightCopies copies(parameters_, at::kBFloat16);
  for (at::Tensor tensor : parameters_.tensors()) {
    const at::NoGradGuard no_grad;
    tensor.set_data(at::randn(tensor.sizes()).contiguous(tensor.suggest_memory_format()));
  }
  copies.refresh();
  expect_same(pass(true), pass(false));
}

}  // namespace
}  // namespace lockstep::kernels
