#include "lockstep/data/views.h"

#include <algorithm>
#include <cmath>

namespace lockstep::data {
namespace {

constexpr double kLeastArea = 0.08;
constexpr double kWidest = 4. / 3.;
constexpr int kTries = 10;
constexpr double kCentrePart = 224. / 256.;

/// A whole number from 0 to `most`, both included.
int uniform_integer(Dice& dice, int most) {
  return std::min(most, static_cast<int>(uniform(dice) * (most + 1)));
}

View middle(Dimensions image, double width, double height) {
  return {(image.width - width) / 2, (image.height - height) / 2, width, height};
}

}  // namespace

double uniform(Dice& dice) {
  return static_cast<double>(dice() >> 11U) * 0x1p-53;
}

View random_resized_view(Dimensions image, Dice& dice) {
  const double area = static_cast<double>(image.width) * image.height;
  const bool mirrored = uniform(dice) < 0.5;
  for (int i = 0; i < kTries; ++i) {
    const double part = area * (kLeastArea + (1 - kLeastArea) * uniform(dice));
    const double ratio = std::exp((2 * uniform(dice) - 1) * std::log(kWidest));
    const int width = static_cast<int>(std::lround(std::sqrt(part * ratio)));
    const int height = static_cast<int>(std::lround(std::sqrt(part / ratio)));
    // Draw again rather than clip, which would prefer the borders.
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const int left = uniform_integer(dice, image.width - width);
    const int top = uniform_integer(dice, image.height - height);
    return {double(left), double(top), double(width), double(height), mirrored};
  }
  // The image is too long for these ratios: take its center at the nearest ratio.
  View view = middle(image, std::min<double>(image.width, image.height * kWidest),
                     std::min<double>(image.height, image.width * kWidest));
  view.mirrored = mirrored;
  return view;
}

View shifted_view(Dimensions padded, int padding, Dice& dice) {
  const bool mirrored = uniform(dice) < 0.5;
  const int left = uniform_integer(dice, 2 * padding);
  const int top = uniform_integer(dice, 2 * padding);
  return {double(left), double(top), double(padded.width - 2 * padding), double(padded.height - 2 * padding),
          mirrored};
}

View centre_view(Dimensions image) {
  const double side = std::min(image.width, image.height) * kCentrePart;
  return middle(image, side, side);
}

View whole_view(Dimensions image) {
  return {0, 0, double(image.width), double(image.height)};
}

}  // namespace lockstep::data
