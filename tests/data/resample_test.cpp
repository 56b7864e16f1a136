#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/image.h"

#include "data/encoded.h"

namespace lockstep::data {
namespace {

std::vector<uint8_t> resampled(const Image& image, const View& view, int size) {
  std::vector<uint8_t> out(static_cast<size_t>(size) * static_cast<size_t>(size) *
                           static_cast<size_t>(image.channels));
  resample(image, view, size, out.data());
  return out;
}

View all_of(const Image& image) {
  return {0, 0, double(image.width), double(image.height)};
}

TEST(ResampleTest, its_own_size_is_a_copy_mirrored_or_not) {
  const Image image = picture(9, 9);
  EXPECT_EQ(resampled(image, all_of(image), 9), image.pixels);
  View view = all_of(image);
  view.mirrored = true;
  const std::vector<uint8_t> mirrored = resampled(image, view, 9);
  EXPECT_NE(mirrored, image.pixels);
  for (size_t y = 0; y < 9; ++y) {
    for (size_t x = 0; x < 9; ++x) {
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_EQ(mirrored[(y * 9 + x) * 3 + c], image.pixels[(y * 9 + 8 - x) * 3 + c]);
      }
    }
  }
}

TEST(ResampleTest, a_part_of_its_own_size_is_that_part) {
  const Image image = picture(12, 10, 1);
  const std::vector<uint8_t> part = resampled(image, {3, 2, 5, 5}, 5);
  for (size_t y = 0; y < 5; ++y) {
    for (size_t x = 0; x < 5; ++x) EXPECT_EQ(part[y * 5 + x], image.pixels[(y + 2) * 12 + x + 3]);
  }
}

TEST(ResampleTest, one_value_everywhere_stays_that_value) {
  for (const int value : {1, 77, 255}) {
    Image image{37, 23, 3, std::vector<uint8_t>(size_t{37} * 23 * 3, static_cast<uint8_t>(value))};
    for (const int size : {1, 7, 23, 64}) {
      EXPECT_THAT(resampled(image, {1.3, 0.7, 35.1, 21.9}, size), testing::Each(value)) << size;
    }
  }
}

TEST(ResampleTest, thousands_of_small_weights_lose_nothing) {
  const Image image{9000, 2, 1, std::vector<uint8_t>(18000, 255)};
  EXPECT_THAT(resampled(image, all_of(image), 1), testing::Each(255));
}

TEST(ResampleTest, values_between_pixels_are_on_the_line_between_them) {
  const Image image{2, 2, 1, {0, 100, 0, 100}};
  // Centres at 0.25, 0.75, 1.25 and 1.75; the pixels' at 0.5 and 1.5.
  EXPECT_THAT(resampled(image, all_of(image), 4),
              testing::ElementsAre(0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100));
}

TEST(ResampleTest, shrinking_counts_every_pixel) {
  // A bright column may not vanish, wherever it is, and away from the edges the mean of it all stays.
  for (size_t bright = 0; bright < 32; ++bright) {
    Image image{32, 32, 1, std::vector<uint8_t>(32 * 32, 0)};
    for (size_t y = 0; y < 32; ++y) image.pixels[y * 32 + bright] = 240;
    const std::vector<uint8_t> small = resampled(image, all_of(image), 8);
    int sum = 0;
    for (size_t x = 0; x < 8; ++x) sum += small[x];
    EXPECT_GT(sum, 30) << bright;
    if (bright > 5 && bright < 26) {
      EXPECT_NEAR(sum, 60, 2) << bright;
    }
  }
}

}  // namespace
}  // namespace lockstep::data
