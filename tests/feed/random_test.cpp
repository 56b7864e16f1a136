#include <cmath>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/feed/random_batches.h"

namespace lockstep::feed {
namespace {

std::vector<uint8_t> noise(uint64_t seed, size_t bytes) {
  std::vector<uint8_t> out(bytes);
  fill_with_noise(seed, out);
  return out;
}

/// The first outputs of splitmix64 with seed 1234567, as its authors' program prints them.
TEST(NoiseTest, is_the_output_of_splitmix64) {
  const std::vector<uint8_t> bytes = noise(1234567, 16);
  uint64_t first = 0, second = 0;
  for (size_t i = 8; i-- > 0;) {
    first = first << 8 | bytes[i];
    second = second << 8 | bytes[8 + i];
  }
  EXPECT_EQ(first, 6457827717110365317U);
  EXPECT_EQ(second, 3203168211198807973U);
}

TEST(NoiseTest, of_any_length_begins_alike) {
  const std::vector<uint8_t> all = noise(5, 64);
  for (size_t bytes = 0; bytes < all.size(); ++bytes) {
    EXPECT_EQ(noise(5, bytes), std::vector<uint8_t>(all.begin(), all.begin() + long(bytes))) << bytes;
  }
  EXPECT_NE(noise(6, 64), all);
}

TEST(NoiseTest, has_the_mean_and_the_deviation_that_it_is_normalised_by) {
  const std::vector<uint8_t> bytes = noise(1, 1 << 20);
  double sum = 0, squares = 0;
  for (const uint8_t byte : bytes) {
    sum += byte / 255.;
    squares += byte / 255. * (byte / 255.);
  }
  const auto count = double(bytes.size());
  EXPECT_NEAR(sum / count, kNoiseMean, 5 * kNoiseDeviation / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count - std::pow(sum / count, 2)), kNoiseDeviation, 1e-3);
}

constexpr BatchShape kJoint{.batch = 12, .channels = 3, .image_size = 5};

struct Made {
  std::vector<uint8_t> pixels;
  std::vector<int64_t> labels;

  explicit Made(const BatchShape& shape)
      : pixels(static_cast<size_t>(shape.bytes())), labels(static_cast<size_t>(shape.batch)) {}
};

Made made_by(const RandomBatches& batches, int64_t number) {
  Made made(batches.shape());
  batches.make(number, made.pixels.data(), made.labels.data());
  return made;
}

TEST(RandomBatchesTest, every_sample_is_another) {
  const RandomBatches batches(kJoint, 10, 7);
  std::set<std::vector<uint8_t>> images;
  for (int64_t number = 0; number < 5; ++number) {
    const Made made = made_by(batches, number);
    for (int64_t i = 0; i < kJoint.batch; ++i) {
      const auto begin = made.pixels.begin() + i * kJoint.image_bytes();
      images.emplace(begin, begin + kJoint.image_bytes());
    }
    EXPECT_THAT(made.labels, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(10))));
  }
  EXPECT_EQ(images.size(), 60U);
  EXPECT_NE(made_by(RandomBatches(kJoint, 10, 8), 0).pixels, made_by(batches, 0).pixels);
}

class NormalizeTest : public testing::TestWithParam<int> {};

TEST_P(NormalizeTest, is_done_value_by_value_in_both_orders) {
  const int channels = GetParam();
  // No multiple of any block.
  constexpr int64_t kCount = 149;
  const std::vector<uint8_t> pixels = noise(3, size_t(kCount * channels));
  const std::array<float, 3> mean{0.25F, 0.5F, 0.75F}, deviation{0.5F, 0.25F, 1.F};
  const Scaling scaling = scaling_of(mean, deviation);
  std::vector<float> interleaved(pixels.size()), planar(pixels.size());
  normalize_interleaved(pixels.data(), kCount, channels, scaling, interleaved.data());
  normalize_planar(pixels.data(), kCount, channels, scaling, planar.data());
  for (int64_t i = 0; i < kCount; ++i) {
    for (int c = 0; c < channels; ++c) {
      const auto at = size_t(i * channels + c);
      const float expected = (float(pixels[at]) / 255 - mean[size_t(c)]) / deviation[size_t(c)];
      EXPECT_NEAR(interleaved[at], expected, 1e-6);
      EXPECT_EQ(planar[size_t(c * kCount + i)], interleaved[at]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Channels, NormalizeTest, testing::Values(1, 3));

}  // namespace
}  // namespace lockstep::feed
