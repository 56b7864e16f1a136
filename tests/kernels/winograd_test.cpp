// Convolutions by Winograd's filtering are those of LibTorch, as exactly, on any number of threads.

#include "lockstep/kernels/winograd.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/onednn/instruction_set.h"

namespace lockstep::kernels {
namespace {

double winograd_error(const at::Tensor& found, const at::Tensor& exact) {
  return (found.to(at::kDouble) - exact).norm().item().toDouble() / exact.norm().item().toDouble();
}

struct WinogradCase {
  int64_t batch, in_channels, out_channels, height, width;
  Extent padding = 1;
  bool bias = false;
  bool relu = false;

  ConvShape shape() const {
    return {.in_channels = in_channels, .out_channels = out_channels, .kernel = 3, .padding = padding};
  }
};

std::ostream& operator<<(std::ostream& out, const WinogradCase& own) {
  return out << fmt::format("{}x{}x{}x{} to {}, padding {}x{}{}{}", own.batch, own.in_channels, own.height,
                            own.width, own.out_channels, own.padding.height, own.padding.width,
                            own.bias ? ", bias" : "", own.relu ? ", relu" : "");
}

/// Output and gradients.
struct Results {
  static constexpr const char* kNames[] = {"output", "input's gradient", "weight's gradient",
                                           "bias's gradient"};
  std::vector<at::Tensor> tensors;
};

class WinogradConv : public testing::TestWithParam<WinogradCase> {
 protected:
  WinogradConv() {
    at::set_num_threads(1);
    at::manual_seed(21);
    const WinogradCase& own = GetParam();
    x_ = draw({own.batch, own.in_channels, own.height, own.width}).relu();
    weight_ = draw({own.out_channels, own.in_channels, 3, 3});
    bias_ = at::randn({own.out_channels});
    gradient_ = draw(by_torch(at::kDouble).tensors[0].sizes());
  }
  ~WinogradConv() override { at::set_num_threads(1); }

  static at::Tensor draw(at::IntArrayRef sizes) {
    return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast);
  }

  static at::Tensor leaf(const at::Tensor& tensor, at::ScalarType type) {
    return tensor.detach().to(type).clone().set_requires_grad(true);
  }

  template <typename Convolve>
  Results results(at::ScalarType type, const Convolve& convolve) const {
    const at::Tensor x = leaf(x_, type);
    const at::Tensor weight = leaf(weight_, type);
    const at::Tensor bias = GetParam().bias ? leaf(bias_, type) : at::Tensor();
    const at::Tensor y = convolve(x, weight, bias);
    Results all{{y.detach()}};
    if (!gradient_.defined()) return all;
    y.backward(gradient_.to(type));
    all.tensors.insert(all.tensors.end(), {x.grad(), weight.grad()});
    if (bias.defined()) all.tensors.push_back(bias.grad());
    return all;
  }

  Results by_torch(at::ScalarType type) const {
    return results(type, [](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
      const WinogradCase& own = GetParam();
      const at::Tensor y = at::conv2d(x, weight, bias, 1, {own.padding.height, own.padding.width});
      return own.relu ? y.relu() : y;
    });
  }

  Results by_winograd() const {
    const ConvShape shape = GetParam().shape();
    const replica::GradientPlace nowhere;
    return results(at::kFloat, [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
      return to_plain(winograd_conv(shape, GetParam().relu, to_blocked(x), weight, bias, nowhere));
    });
  }

  /// Expects the convolution to be refused if they do not.
  static bool channels_fill_blocks() {
    const WinogradCase& own = GetParam();
    const bool fill = own.in_channels % channels_per_block() == 0;
    if (!fill) {
      EXPECT_FALSE(
          suits_winograd(own.shape(), winograd_shape(own.shape(), own.batch, own.height, own.width)));
    }
    return fill;
  }

  at::Tensor x_, weight_, bias_, gradient_;
};

TEST_P(WinogradConv, errs_at_most_half_as_much_again_as_the_direct_sum) {
  // Without AVX2 there is no fused multiply-add: products are rounded before they are added up.
  const double allowed = onednn::instruction_set() == onednn::InstructionSet::kAny ? 3 : 1.5;
  const Results exact = by_torch(at::kDouble);
  const Results direct = by_torch(at::kFloat);
  if (!channels_fill_blocks()) return;
  const Results found = by_winograd();
  ASSERT_EQ(found.tensors.size(), exact.tensors.size());
  for (size_t i = 0; i < exact.tensors.size(); ++i) {
    ASSERT_EQ(found.tensors[i].sizes(), exact.tensors[i].sizes()) << Results::kNames[i];
    EXPECT_LE(winograd_error(found.tensors[i], exact.tensors[i]),
              allowed * winograd_error(direct.tensors[i], exact.tensors[i]))
        << Results::kNames[i];
  }
}

TEST_P(WinogradConv, gives_the_same_bits_on_any_number_of_threads) {
  if (!channels_fill_blocks()) return;
  const Results alone = by_winograd();
  for (const int threads : {2, 3, 7}) {
    at::set_num_threads(threads);
    const Results together = by_winograd();
    for (size_t i = 0; i < alone.tensors.size(); ++i) {
      EXPECT_TRUE(together.tensors[i].equal(alone.tensors[i])) << Results::kNames[i] << ", " << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, WinogradConv,
                         testing::Values(WinogradCase{16, 32, 32, 4, 4}, WinogradCase{4, 64, 64, 12, 9},
                                         WinogradCase{4, 64, 64, 28, 28, 1, true, true},
                                         WinogradCase{4, 48, 80, 7, 13, 2, true},
                                         WinogradCase{4, 256, 32, 14, 14, 1, true, true},
                                         WinogradCase{8, 32, 256, 8, 8, 0, false, true},
                                         WinogradCase{30, 96, 48, 5, 4, {0, 1}, true, true},
                                         WinogradCase{5, 32, 48, 6, 31, {2, 1}},
                                         WinogradCase{4, 40, 56, 9, 10, 1, true},
                                         WinogradCase{6, 192, 208, 7, 7}));

TEST(WinogradConvTest, leaves_what_suits_it_not) {
  const bool is_taken = onednn::instruction_set() != onednn::InstructionSet::kAny;
  const ConvShape wanted{.in_channels = 32, .out_channels = 64, .kernel = 3, .padding = 1};
  const auto images = [](int64_t batch, int64_t height, int64_t width) {
    return to_blocked(at::randn({batch, 32, height, width}));
  };
  const at::Tensor weight = at::randn({64, 32, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto with = [&](auto change) {
    ConvShape shape = wanted;
    change(shape);
    return can_winograd(shape, images(8, 6, 6), weight);
  };
  EXPECT_EQ(can_winograd(wanted, images(8, 6, 6), weight), is_taken);
  EXPECT_EQ(can_winograd(wanted, images(13, 4, 5), weight), is_taken);
  EXPECT_FALSE(can_winograd(wanted, images(16, 3, 8), weight));
  EXPECT_FALSE(can_winograd(wanted, images(16, 8, 3), weight));
  EXPECT_FALSE(can_winograd(wanted, images(7, 6, 6), weight));
  EXPECT_FALSE(can_winograd(wanted, images(3, 20, 20), weight));
  EXPECT_FALSE(can_winograd(wanted, images(8, 6, 6).to(at::kBFloat16), weight));
  EXPECT_FALSE(can_winograd(wanted, to_blocked(at::randn({8, 48, 6, 6})), weight));
  EXPECT_FALSE(can_winograd(wanted, images(8, 6, 6), weight.contiguous()));
  EXPECT_FALSE(with([](ConvShape& shape) { shape.stride = 2; }));
  EXPECT_FALSE(with([](ConvShape& shape) { shape.groups = 2; }));
  EXPECT_FALSE(with([](ConvShape& shape) { shape.kernel = {3, 1}; }));
  EXPECT_FALSE(with([](ConvShape& shape) { shape.kernel = 5; }));
  EXPECT_FALSE(with([](ConvShape& shape) { shape.padding = {1, 3}; }));
  EXPECT_FALSE(with([](ConvShape& shape) { shape.out_channels = 68; }));
  EXPECT_FALSE(with([](ConvShape& shape) { shape.out_channels = 16; }));
}

TEST(WinogradConvTest, shows_what_is_not_a_number) {
  const ConvShape shape{.in_channels = 16, .out_channels = 16, .kernel = 3, .padding = 1};
  const replica::GradientPlace nowhere;
  at::Tensor x = at::randn({1, 16, 8, 8});
  x[0][3][5][2] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor weight = at::randn({16, 16, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor y = to_plain(winograd_conv(shape, true, to_blocked(x), weight, {}, nowhere));
  for (int64_t row = 4; row <= 6; ++row) {
    for (int64_t column = 1; column <= 3; ++column)
      EXPECT_TRUE(std::isnan(y[0][0][row][column].item().toFloat())) << row << ", " << column;
  }
}

}  // namespace
}  // namespace lockstep::kernels
