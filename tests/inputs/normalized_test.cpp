#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "lockstep/feed/normalize.h"
#include "lockstep/feed/random_batches.h"
#include "lockstep/inputs/staged.h"

namespace lockstep::inputs {
namespace {

constexpr int64_t kBatch = 3;
constexpr int64_t kSize = 7;

at::Tensor noise(int64_t channels) {
  at::set_num_threads(1);
  at::Tensor pixels = at::empty({kBatch, kSize, kSize, channels}, at::kByte);
  feed::fill_with_noise(5, {pixels.mutable_data_ptr<uint8_t>(), static_cast<size_t>(pixels.numel())});
  return pixels;
}

/// One image normalized on the host, [channels, height, width] or with the channels last.
std::vector<float> expected(const at::Tensor& image, const feed::Scaling& scaling, bool planar) {
  const auto channels = static_cast<int>(image.size(2));
  std::vector<float> out(static_cast<size_t>(image.numel()));
  const auto normalize = planar ? feed::normalize_planar : feed::normalize_interleaved;
  normalize(image.const_data_ptr<uint8_t>(), kSize * kSize, channels, scaling, out.data());
  return out;
}

class NormalizedTest : public testing::TestWithParam<std::tuple<int64_t, at::MemoryFormat>> {};

/// Scales and shifts that differ from channel to channel by more than a rounding could hide.
TEST_P(NormalizedTest, is_what_the_host_computes_up_to_a_rounding) {
  const auto [channels, format] = GetParam();
  const feed::Scaling scaling = feed::scaling_of({0.485F, 0.3F, 0.1F}, {0.229F, 0.5F, 0.9F});
  const at::Tensor pixels = noise(channels);
  const at::Tensor images = normalized(pixels, ChannelScaling(scaling, channels, at::kCPU), format);
  ASSERT_EQ(images.sizes(), at::IntArrayRef({kBatch, channels, kSize, kSize}));
  ASSERT_TRUE(images.is_contiguous(format));
  ASSERT_EQ(images.scalar_type(), at::kFloat);
  for (int64_t i = 0; i < kBatch; ++i) {
    const std::vector<float> host = expected(pixels[i], scaling, format == at::MemoryFormat::Contiguous);
    const auto* const values = static_cast<const float*>(images.const_data_ptr()) + i * images[i].numel();
    for (size_t at = 0; at < host.size(); ++at) {
      // The product is less than 8, and a fused multiply-add leaves out its rounding.
      ASSERT_NEAR(values[at], host[at], std::ldexp(1, -21)) << "image " << i << ", value " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, NormalizedTest,
                         testing::Combine(testing::Values(1, 3),
                                          testing::Values(at::MemoryFormat::Contiguous,
                                                          at::MemoryFormat::ChannelsLast)));

}  // namespace
}  // namespace lockstep::inputs
