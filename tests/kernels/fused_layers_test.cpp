// The surroundings of convolutions: pooling, linear layers, joints, and the layout itself.

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/kernels/fused_norm.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/linear.h"
#include "lockstep/kernels/pool.h"
#include "lockstep/replica/precision.h"

namespace lockstep::kernels {
namespace {

const Context kFused{.kernels = KernelChoice::kFused};

at::Tensor images(int64_t channels, int64_t height, int64_t width) {
  return at::randn({3, channels, height, width}).contiguous(at::MemoryFormat::ChannelsLast);
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item().toDouble();
}

TEST(ImageLayoutTest, is_undone) {
  const at::Tensor x = images(2 * channels_per_block(), 5, 3);
  const at::Tensor blocked = to_blocked(x);
  EXPECT_TRUE(is_blocked(blocked));
  EXPECT_TRUE(blocked.is_contiguous());
  EXPECT_EQ(channels_of(blocked), x.size(1));
  EXPECT_TRUE(to_plain(blocked).equal(x));
  EXPECT_TRUE(flatten_image(blocked).equal(x.flatten(1)));
  EXPECT_FALSE(can_block(channels_per_block() / 2));
}

TEST(ImageLayoutTest, joins_images_of_both_kinds) {
  const int64_t block = channels_per_block();
  const at::Tensor first = images(block, 4, 4);
  const at::Tensor second = images(2 * block, 4, 4);
  const at::Tensor third = images(block / 2, 4, 4);
  const at::Tensor blocked = concatenate({to_blocked(first), second});
  EXPECT_TRUE(is_blocked(blocked));
  EXPECT_TRUE(to_plain(blocked).equal(at::cat({first, second}, 1)));
  const at::Tensor plain = concatenate({to_blocked(first), third});
  EXPECT_FALSE(is_blocked(plain));
  EXPECT_TRUE(plain.equal(at::cat({first, third}, 1)));
}

struct PoolCase {
  int64_t height, width;
  PoolShape shape;
  bool mean = false;
  bool covered = true;
};

class FusedPool : public testing::TestWithParam<PoolCase> {};

TEST_P(FusedPool, is_what_libtorch_computes) {
  at::set_num_threads(1);
  const PoolCase& own = GetParam();
  const at::Tensor x = images(2 * channels_per_block(), own.height, own.width);
  const auto pool = [&](const at::Tensor& given, const Context& context) {
    return own.mean ? AvgPool(own.shape)(given, context) : MaxPool(own.shape)(given, context);
  };
  const at::Tensor plain_x = x.clone().set_requires_grad(true);
  const at::Tensor plain = pool(plain_x, Context());
  const at::Tensor gradient = at::randn(plain.sizes());
  plain.backward(gradient);
  const at::Tensor fused_x = x.clone().set_requires_grad(true);
  const at::Tensor fused = pool(to_blocked(fused_x), kFused);
  EXPECT_EQ(is_blocked(fused), own.covered && why_no_fused_kernels().empty());
  to_plain(fused).backward(gradient);
  EXPECT_LE(difference(to_plain(fused), plain), 1e-6);
  EXPECT_LE(difference(fused_x.grad(), plain_x.grad()), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FusedPool,
    testing::Values(PoolCase{11, 9, {.kernel = 3, .stride = 2, .padding = 1}}, PoolCase{8, 8, {}},
                    PoolCase{12, 7, {.kernel = 3, .stride = 2, .ceil = true}},
                    PoolCase{13, 10, {.kernel = 3, .stride = 2, .padding = 1, .ceil = true}},
                    PoolCase{9, 9, {.kernel = 3, .stride = 1, .padding = 1}, true},
                    PoolCase{12, 12, {.kernel = 5, .stride = 3}, true},
                    PoolCase{8, 8, {.kernel = 3, .stride = 2, .ceil = true}, true, false}));

TEST(FusedPoolTest, takes_the_mean_of_the_whole_image) {
  const at::Tensor x = images(2 * channels_per_block(), 7, 5);
  const at::Tensor fused = AdaptiveAvgPool(1)(to_blocked(x), kFused);
  EXPECT_LE(difference(fused, x.mean({2, 3}, /*keepdim=*/true)), 1e-6);
  EXPECT_LE(difference(AdaptiveAvgPool(2)(to_blocked(x), kFused), AdaptiveAvgPool(2)(x, Context())), 1e-6);
}

TEST(FusedPoolTest, leaves_an_image_as_it_is_whose_windows_are_its_pixels) {
  const at::Tensor x = images(2 * channels_per_block(), 6, 6).set_requires_grad(true);
  const at::Tensor fused = AdaptiveAvgPool(6)(to_blocked(x), kFused);
  EXPECT_TRUE(fused.equal(AdaptiveAvgPool(6)(x, Context())));
  const at::Tensor gradient = at::randn(fused.sizes());
  fused.backward(gradient);
  EXPECT_TRUE(x.grad().equal(gradient));
}

class FusedLinearTest : public testing::TestWithParam<replica::Precision> {};

TEST_P(FusedLinearTest, errs_no_more_than_libtorch_and_writes_where_it_is_told) {
  at::set_num_threads(1);
  at::manual_seed(3);
  const bool narrow = GetParam() == replica::Precision::kBf16;
  const auto rounded = [&](const at::Tensor& values) {
    return narrow ? values.to(at::kBFloat16).to(at::kFloat) : values;
  };
  const at::Tensor x = rounded(at::randn({5, 37}));
  const at::Tensor gradient = rounded(at::randn({5, 19}));
  const auto pass = [&](const Context& context, bool placed) {
    replica::Parameters parameters(7, at::MemoryFormat::Contiguous);
    const Linear linear(parameters, "fc", 37, 19);
    const at::Tensor place = at::ones({19, 37});
    if (placed) parameters.place_gradient(0, {.tensor = place, .scale = 0.5, .add = true});
    const at::Tensor own_x = x.clone().set_requires_grad(true);
    at::Tensor y;
    {
      const replica::AutocastScope scope(GetParam(), at::kCPU);
      y = linear(own_x, context);
    }
    y.backward(gradient.to(y.scalar_type()));
    const at::Tensor of_weight = parameters.trainable()[0].value.grad();
    // Without fast code for bf16 LibTorch computes, and leaves the gradient to autograd.
    const bool written = placed && (!narrow || channels_per_block() == 16);
    return std::vector<at::Tensor>{y.detach(), own_x.grad(), written ? (place - 1) * 2 : of_weight,
                                   parameters.trainable()[1].value.grad()};
  };
  replica::Parameters parameters(7, at::MemoryFormat::Contiguous);
  const Linear same(parameters, "fc", 37, 19);
  const at::Tensor exact_x = x.to(at::kDouble).set_requires_grad(true);
  const at::Tensor weight = parameters.trainable()[0].value.detach().to(at::kDouble).set_requires_grad(true);
  const at::Tensor bias = parameters.trainable()[1].value.detach().to(at::kDouble).set_requires_grad(true);
  const at::Tensor exact_y = at::linear(exact_x, weight, bias);
  exact_y.backward(gradient.to(at::kDouble));
  const std::vector<at::Tensor> exact{exact_y.detach(), exact_x.grad(), weight.grad(), bias.grad()};
  const std::vector<at::Tensor> aten = pass(Context(), false);
  for (const bool placed : {false, true}) {
    const std::vector<at::Tensor> fused = pass(kFused, placed);
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_LE(difference(fused[i], exact[i]), 1.5 * difference(aten[i], exact[i]) + 2e-6)
          << i << ", " << placed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, FusedLinearTest,
                         testing::Values(replica::Precision::kFp32, replica::Precision::kBf16));

/// More threads than blocks share the images of a block out, which is another way through the code.
TEST(FusedNormTest, gives_the_same_bits_on_any_number_of_threads) {
  at::manual_seed(5);
  const int64_t channels = 3 * channels_per_block();
  const at::Tensor x = to_blocked(images(channels, 13, 9) * 3 + 7);
  const at::Tensor gradient = at::randn(x.sizes());
  const auto pass = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor own_x = x.clone().set_requires_grad(true);
    const at::Tensor weight = at::arange(1, channels + 1).to(at::kFloat).set_requires_grad(true);
    const at::Tensor bias = at::zeros({channels}).set_requires_grad(true);
    const NormLayer layer{weight, bias, at::zeros({channels}), at::ones({channels})};
    const at::Tensor y = fused_norm(own_x, {}, layer, {.relu = true}).path;
    y.backward(gradient);
    return std::vector<at::Tensor>{y.detach(),  own_x.grad(),       weight.grad(),
                                   bias.grad(), layer.running_mean, layer.running_variance};
  };
  const std::vector<at::Tensor> one = pass(1);
  const std::vector<at::Tensor> two = pass(2);
  at::set_num_threads(1);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(two[i])) << i;
}

/// Both are blocked images, whatever layout this processor's networks have.
TEST(FusedNormTest, gives_the_same_bits_in_both_layouts) {
  at::manual_seed(6);
  const int64_t block = channels_per_block(), channels = 3 * block;
  const at::Tensor plain = images(channels, 17, 13) * 3 + 7, added = images(channels, 17, 13);
  const at::Tensor gradient = images(channels, 17, 13), more = images(channels, 17, 13);
  const auto pass = [&](at::ScalarType type, bool relu, bool adds, int64_t width, int threads) {
    at::set_num_threads(threads);
    const auto blocked = [&](const at::Tensor& image) {
      return image.unflatten(1, {channels / width, width}).permute({0, 1, 3, 4, 2}).contiguous().to(type);
    };
    const at::Tensor x = blocked(plain).set_requires_grad(true);
    const at::Tensor residual = adds ? blocked(added).set_requires_grad(true) : at::Tensor();
    const at::Tensor weight = at::arange(1, channels + 1).to(at::kFloat).set_requires_grad(true);
    const at::Tensor bias = at::zeros({channels}).set_requires_grad(true);
    const NormLayer layer{weight, bias, at::zeros({channels}), at::ones({channels})};
    const Fork y = fused_norm(x, residual, layer, {.relu = relu, .forks = adds});
    if (adds) {
      torch::autograd::backward({y.path, y.shortcut}, {blocked(gradient), blocked(more)});
    } else {
      y.path.backward(blocked(gradient));
    }
    std::vector<at::Tensor> made{to_plain(y.path.detach()), to_plain(x.grad()),    weight.grad(), bias.grad(),
                                 layer.running_mean,        layer.running_variance};
    if (adds) made.push_back(to_plain(residual.grad()));
    return made;
  };
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const bool relu : {false, true}) {
      for (const bool adds : {false, true}) {
        const std::vector<at::Tensor> blocks = pass(type, relu, adds, block, 1);
        for (const int threads : {1, 2}) {
          const std::vector<at::Tensor> last = pass(type, relu, adds, channels, threads);
          for (size_t i = 0; i < blocks.size(); ++i)
            EXPECT_TRUE(last[i].equal(blocks[i])) << i << ", " << type << relu << adds << ", " << threads;
        }
      }
    }
  }
  at::set_num_threads(1);
}

TEST(FusedNormTest, hands_a_nan_on) {
  at::set_num_threads(1);
  const int64_t channels = channels_per_block();
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    at::Tensor x = to_blocked(images(channels, 4, 4)).to(type);
    x.flatten()[5] = std::numeric_limits<double>::quiet_NaN();
    const NormLayer layer{at::ones({channels}), at::zeros({channels}), at::zeros({channels}),
                          at::ones({channels})};
    EXPECT_TRUE(fused_norm(x, {}, layer, {.relu = true}).path.isnan().any().item().toBool());
  }
}

}  // namespace
}  // namespace lockstep::kernels
