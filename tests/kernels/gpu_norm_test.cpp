// The normalization for GPUs, driven by autograd as on a GPU, with the same kernels on the host's memory.

#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>

#include "lockstep/kernels/conv_bn.h"
#include "lockstep/kernels/fused_norm.h"
#include "lockstep/replica/precision.h"

#include "cuda_kernels/host_kernels.h"

namespace lockstep::kernels {
namespace {

/// The results of a fork that the rest of a network uses.
enum class Use { kPath, kShortcut, kBoth };

struct GpuNormCase {
  bool relu;
  bool residual;
  Use use;
  at::ScalarType type = at::kFloat;
  at::MemoryFormat format = at::MemoryFormat::ChannelsLast;
};

class GpuNormTest : public testing::TestWithParam<GpuNormCase> {
 protected:
  GpuNormTest() {
    at::manual_seed(3);
    const GpuNormCase& own = GetParam();
    const auto image = [&] { return at::randn({3, 13, 5, 4}).to(own.type).contiguous(own.format); };
    x_ = image();
    residual_ = image();
    factors_ = {image(), image()};
  }

  /// Output, running values, and the gradients of x, residual, weight and bias.
  template <typename Norm>
  std::vector<at::Tensor> pass(at::ScalarType type, const Norm& norm) const {
    const at::Tensor x = x_.to(type, false, /*copy=*/true).set_requires_grad(true);
    const at::Tensor residual = residual_.to(type, false, /*copy=*/true).set_requires_grad(true);
    const at::TensorOptions values = type == at::kDouble ? at::kDouble : at::kFloat;
    NormLayer layer{.weight = at::ones({13}, values) * 1.5,
                    .bias = at::ones({13}, values) * 0.25,
                    .running_mean = at::zeros({13}, values),
                    .running_variance = at::ones({13}, values)};
    layer.weight.set_requires_grad(true);
    layer.bias.set_requires_grad(true);
    const Fork made = norm(x, residual, layer);
    at::Tensor loss = at::zeros({}, values);
    if (GetParam().use != Use::kShortcut) loss = loss + (made.path * factors_[0].to(type)).sum();
    if (GetParam().use != Use::kPath) loss = loss + (made.shortcut * factors_[1].to(type)).sum();
    loss.backward();
    std::vector<at::Tensor> all{made.path, layer.running_mean,  layer.running_variance,
                                x.grad(),  layer.weight.grad(), layer.bias.grad()};
    if (GetParam().residual) all.push_back(residual.grad());
    return all;
  }

  at::Tensor x_, residual_;
  std::vector<at::Tensor> factors_;
};

TEST_P(GpuNormTest, agrees_with_libtorchs_operations) {
  const GpuNormCase& own = GetParam();
  const auto found =
      pass(own.type, [&](const at::Tensor& x, const at::Tensor& residual, const NormLayer& layer) {
        return gpu_norm(x, own.residual ? residual : at::Tensor(), layer,
                        {.relu = own.relu, .forks = own.use != Use::kPath}, cuda_kernels::host_kernels());
      });
  const auto exact =
      pass(at::kDouble, [&](const at::Tensor& x, const at::Tensor& residual, const NormLayer& layer) {
        at::Tensor mean = layer.running_mean;
        at::Tensor variance = layer.running_variance;
        at::Tensor y = at::batch_norm(x, layer.weight, layer.bias, mean, variance, true, 0.1, 1e-5, false);
        if (own.residual) y = y + residual;
        if (own.relu) y = at::relu(y);
        return Fork{y, y};
      });
  const double tolerance = own.type == at::kFloat ? 1e-5 : own.type == at::kHalf ? 4e-3 : 3e-2;
  ASSERT_EQ(found.size(), exact.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(found[i].defined()) << "result " << i;
    EXPECT_EQ(found[i].sizes(), exact[i].sizes());
    EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), exact[i], tolerance, tolerance)) << "result " << i;
  }
  EXPECT_EQ(found[0].scalar_type(), own.type);
  EXPECT_TRUE(found[0].is_contiguous(at::MemoryFormat::ChannelsLast));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GpuNormTest,
    testing::Values(GpuNormCase{false, false, Use::kPath}, GpuNormCase{true, false, Use::kPath},
                    GpuNormCase{false, true, Use::kPath}, GpuNormCase{true, true, Use::kPath},
                    GpuNormCase{true, true, Use::kBoth}, GpuNormCase{true, true, Use::kShortcut},
                    GpuNormCase{true, false, Use::kBoth}, GpuNormCase{false, true, Use::kBoth},
                    GpuNormCase{true, true, Use::kBoth, at::kBFloat16},
                    GpuNormCase{true, true, Use::kBoth, at::kHalf},
                    GpuNormCase{true, true, Use::kBoth, at::kFloat, at::MemoryFormat::Contiguous}));

/// The gradient of a mean over the image is an expanded tensor.
TEST(GpuNormGradientTest, an_expanded_one_is_laid_out) {
  at::manual_seed(4);
  const at::Tensor image = at::randn({2, 9, 3, 3});
  const auto gradient = [&](bool on_gpu) {
    const at::Tensor x = image.clone().set_requires_grad(true);
    NormLayer layer{at::rand({9}), at::zeros({9}), at::zeros({9}), at::ones({9})};
    layer.weight.fill_(2);
    at::Tensor mean = layer.running_mean;
    at::Tensor variance = layer.running_variance;
    const at::Tensor y =
        on_gpu
            ? gpu_norm(x, {}, layer, {.relu = true}, cuda_kernels::host_kernels()).path
            : at::relu(at::batch_norm(x, layer.weight, layer.bias, mean, variance, true, 0.1, 1e-5, false));
    y.mean({2, 3}).select(1, 3).sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(at::allclose(gradient(true), gradient(false), 1e-5, 1e-6));
}

/// Output, gradients and running values of two residual blocks after one pass in `precision`.
std::vector<at::Tensor> two_blocks(const Context& context, replica::Precision precision) {
  at::manual_seed(5);
  const at::Tensor image = at::randn({2, 8, 6, 6}).contiguous(at::MemoryFormat::ChannelsLast);
  const ConvShape shape{.in_channels = 8, .out_channels = 8, .kernel = {3, 3}, .padding = {1, 1}};
  replica::Parameters parameters(5, at::MemoryFormat::ChannelsLast);
  const ConvBnAddRelu first(parameters, {"conv1", "bn1"}, shape);
  const ConvBnAddRelu second(parameters, {"conv2", "bn2"}, shape);
  at::Tensor y;
  {
    const replica::AutocastScope autocast(precision, at::kCPU);
    const auto shortcut_of = [](const at::Tensor& x) { return [x] { return x; }; };
    const Fork middle = first(image, shortcut_of(image), context);
    y = second(middle.path, shortcut_of(middle.shortcut), context).path;
  }
  if (context.training) (y.to(at::kFloat) * image).sum().backward();
  std::vector<at::Tensor> made{y.detach()};
  for (const auto& parameter : parameters.trainable()) made.push_back(parameter.value.grad());
  for (const replica::NamedTensor& buffer : parameters.buffers()) {
    made.push_back(buffer.value.to(at::kFloat));
  }
  return made;
}

const Context kWithGpuKernels{.gpu_kernels = &cuda_kernels::host_kernels()};

TEST(GpuNormBlocksTest, use_the_kernels_of_the_context) {
  const auto found = two_blocks(kWithGpuKernels, replica::Precision::kFp32);
  const auto exact = two_blocks({}, replica::Precision::kFp32);
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_TRUE(at::allclose(found[i], exact[i], 1e-4, 1e-4)) << i;
  // Sums in another order: some last bits differ if these were other kernels.
  EXPECT_FALSE(found[1].equal(exact[1]));
}

TEST(GpuNormBlocksTest, compute_with_autocast_in_its_type_and_as_exactly_as_libtorch) {
  const auto found = two_blocks(kWithGpuKernels, replica::Precision::kBf16);
  const auto aten = two_blocks({}, replica::Precision::kBf16);
  const auto exact = two_blocks({}, replica::Precision::kFp32);
  EXPECT_EQ(found[0].scalar_type(), at::kBFloat16);
  for (size_t i = 0; i < exact.size(); ++i) {
    const auto error = [&](const at::Tensor& made) {
      return (made.to(at::kFloat) - exact[i]).norm().item<float>();
    };
    EXPECT_EQ(found[i].scalar_type(), aten[i].scalar_type()) << i;
    EXPECT_LE(error(found[i]), 1.5f * error(aten[i]) + 1e-5f) << i;
  }
}

TEST(GpuNormBlocksTest, evaluate_with_libtorchs_operations) {
  const at::NoGradGuard no_grad;
  Context evaluation = kWithGpuKernels;
  evaluation.training = false;
  EXPECT_TRUE(two_blocks(evaluation, replica::Precision::kFp32)[0].equal(
      two_blocks({.training = false}, replica::Precision::kFp32)[0]));
}

}  // namespace
}  // namespace lockstep::kernels
