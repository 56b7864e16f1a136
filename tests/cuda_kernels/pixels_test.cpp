#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "cuda_kernels/host_kernels.h"
#include "cuda_kernels/image_data.h"

namespace lockstep::cuda_kernels {
namespace {

struct PixelCase {
  int64_t pixels;
  int channels;
  int image_channels;
  Number number;
  int shift = 0;
};

class PixelsTest : public testing::TestWithParam<PixelCase> {};

TEST_P(PixelsTest, are_scaled_as_libtorch_scales_them) {
  const PixelCase& own = GetParam();
  set_host_gpu({.processors = 2});
  PixelConversion conversion{.pixels = own.pixels,
                             .channels = own.channels,
                             .image_channels = own.image_channels,
                             .number = own.number,
                             .scale = {1 / 58.4f, 1 / 57.1f, 1 / 57.4f, 1 / 60.f},
                             .shift = {-2.1f, -2.0f, -1.8f, -0.5f}};
  const at::Tensor pixels = at::randint(256, {own.pixels, own.channels}).to(at::kByte);
  GuardedValues images(own.number, own.pixels * own.image_channels, own.shift);
  conversion.from = pixels.const_data_ptr<uint8_t>();
  conversion.to = images.data();
  host_kernels().convert_pixels(conversion, nullptr);

  const auto row = [&](const float* values) {
    return at::tensor(at::ArrayRef<float>(values, static_cast<size_t>(own.channels))).to(at::kDouble);
  };
  const at::Tensor exact = at::zeros({own.pixels, own.image_channels}, at::kDouble);
  exact.narrow(1, 0, own.channels) += pixels.to(at::kDouble) * row(conversion.scale) + row(conversion.shift);
  expect_rounded(images.tensor().view({own.pixels, own.image_channels}), exact, own.number, "images");
  EXPECT_TRUE(images.is_guarded());
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PixelsTest,
    testing::Values(PixelCase{1, 1, 1, Number::kFloat}, PixelCase{1, 3, 3, Number::kBf16},
                    PixelCase{32 * 32 * 3, 3, 3, Number::kFloat}, PixelCase{20011, 3, 3, Number::kBf16},
                    PixelCase{20011, 3, 4, Number::kBf16}, PixelCase{777, 3, 8, Number::kHalf},
                    PixelCase{777, 1, 1, Number::kHalf, 3}, PixelCase{50, 4, 4, Number::kFloat}));

}  // namespace
}  // namespace lockstep::cuda_kernels
