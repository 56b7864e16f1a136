#include "lockstep/data/image.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

/// Bits of a weight's fraction: 255 times the largest sum of weights, 2^14, fits an int32_t by far, and a
/// weight an int16_t.
constexpr int kBits = 14;
constexpr int kHalf = 1 << (kBits - 1);

/// Resampling along one axis: each place of the result is a weighted sum of `taps` neighbors in the image.
///
///   result    |     place      |   next place   |
///   image     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | ...        scale = image pixels per place
///   weights    ..:::|||||:::..                         a triangle of half-width `reach` around the center,
///               ^first[place]                          taps of them, in fixed point
struct Axis {
  /// The first pixel with a weight, per place.
  std::vector<int> first;
  /// Pixels per place, equal for all places; some weigh nothing.
  int taps = 0;
  /// taps weights per place; they sum to 1 << kBits.
  std::vector<int16_t> weights;
};

Axis make_axis(double begin, double length, int image_length, int size, bool mirrored) {
  const double scale = length / size;
  const double reach = std::max(1.0, scale);
  Axis axis;
  axis.taps = std::min(image_length, static_cast<int>(std::ceil(2 * reach)));
  axis.first.resize(static_cast<size_t>(size));
  axis.weights.resize(static_cast<size_t>(size) * static_cast<size_t>(axis.taps));
  std::vector<double> exact(static_cast<size_t>(axis.taps));
  for (int place = 0; place < size; ++place) {
    const int from = mirrored ? size - 1 - place : place;
    const double centre = begin + (from + 0.5) * scale;
    // The first pixel whose center is less than `reach` away.
    const int first =
        std::clamp(static_cast<int>(std::floor(centre - reach - 0.5)) + 1, 0, image_length - axis.taps);
    double sum = 0;
    for (int tap = 0; tap < axis.taps; ++tap) {
      const double distance = std::abs(first + tap + 0.5 - centre);
      const double weight = std::max(0.0, 1 - distance / reach);
      exact[static_cast<size_t>(tap)] = weight;
      sum += weight;
    }
    axis.first[static_cast<size_t>(place)] = first;
    int16_t* weights = &axis.weights[static_cast<size_t>(place) * static_cast<size_t>(axis.taps)];
    int left = 1 << kBits;
    int heaviest = 0;
    for (int tap = 0; tap < axis.taps; ++tap) {
      weights[tap] = static_cast<int16_t>(std::lround(exact[static_cast<size_t>(tap)] / sum * (1 << kBits)));
      left -= weights[tap];
      if (weights[tap] > weights[heaviest]) heaviest = tap;
    }
    // Corrects for rounding, so that a uniform area keeps its value exactly.
    weights[heaviest] = static_cast<int16_t>(weights[heaviest] + left);
  }
  return axis;
}

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>((sum + kHalf) >> kBits);
}

/// A number of taps known to the compiler, which unrolls loops over them and vectorizes those around.
template <int count>
struct Taps {
  int operator()() const { return count; }
};

/// Any number of taps, for images that shrink to less than a half.
struct AnyTaps {
  int count;
  int operator()() const { return count; }
};

template <typename Action>
void with_taps(int taps, const Action& action) {
  switch (taps) {
    case 2:
      return action(Taps<2>());
    case 3:
      return action(Taps<3>());
    case 4:
      return action(Taps<4>());
    default:
      return action(AnyTaps{taps});
  }
}

/// Combines `taps` rows, `stride` apart, into one.
template <typename TapCount>
void combine_rows(const uint8_t* rows, size_t stride, const int16_t* weights, TapCount taps, size_t bytes,
                  uint8_t* out) {
  for (size_t i = 0; i < bytes; ++i) {
    int32_t sum = 0;
    for (int tap = 0; tap < taps(); ++tap) {
      sum += weights[tap] * int16_t{rows[static_cast<size_t>(tap) * stride + i]};
    }
    out[i] = rounded(sum);
  }
}

template <int channels, typename TapCount>
void resample_row(const uint8_t* row, const Axis& axis, TapCount taps, int size, uint8_t* out) {
  const int16_t* weights = axis.weights.data();
  for (int x = 0; x < size; ++x, weights += taps()) {
    const uint8_t* from = row + static_cast<size_t>(axis.first[static_cast<size_t>(x)]) * channels;
    int32_t sums[channels] = {};
    for (int tap = 0; tap < taps(); ++tap) {
      for (int c = 0; c < channels; ++c) sums[c] += weights[tap] * from[tap * channels + c];
    }
    for (int c = 0; c < channels; ++c) *out++ = rounded(sums[c]);
  }
}

bool is_copy(const ImageRef& image, const View& view, int size) {
  return view.width == size && view.height == size && !view.mirrored && view.left == std::floor(view.left) &&
         view.top == std::floor(view.top) && view.left + size <= image.width &&
         view.top + size <= image.height;
}

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

void check_dimensions(int64_t width, int64_t height, const std::string& name) {
  // Each side is checked before the product, which might overflow.
  if (width > 0 && height > 0 && width <= kMostPixels && height <= kMostPixels / width) return;
  throw Error(fmt::format("'{}': images of {} x {} pixels are not possible", name, width, height),
              fmt::format("The file is damaged, or no image. At most {} million pixels are read.",
                          kMostPixels / 1'000'000));
}

Image with_channels(Image image, int channels) {
  if (image.channels == channels) return image;
  Image changed{image.width, image.height, channels, {}};
  const size_t count = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
  changed.pixels.resize(count * static_cast<size_t>(channels));
  for (size_t i = 0; i < count; ++i) {
    if (channels == 3) {
      for (size_t c = 0; c < 3; ++c) changed.pixels[3 * i + c] = image.pixels[i];
    } else {
      // JPEG's weights 0.299, 0.587 and 0.114 in 16 bits, rounded.
      const uint8_t* from = &image.pixels[3 * i];
      changed.pixels[i] =
          static_cast<uint8_t>((19595U * from[0] + 38470U * from[1] + 7471U * from[2] + 32768U) >> 16U);
    }
  }
  return changed;
}

void resample(const ImageRef& image, const View& view, int size, uint8_t* out) {
  const auto channels = static_cast<size_t>(image.channels);
  const size_t row_bytes = static_cast<size_t>(size) * channels;
  const size_t image_row_bytes = static_cast<size_t>(image.width) * channels;
  if (is_copy(image, view, size)) {
    const uint8_t* from = image.pixels + static_cast<size_t>(view.top) * image_row_bytes +
                          static_cast<size_t>(view.left) * channels;
    for (int y = 0; y < size; ++y) {
      std::memcpy(out + static_cast<size_t>(y) * row_bytes, from + static_cast<size_t>(y) * image_row_bytes,
                  row_bytes);
    }
    return;
  }

  Axis across = make_axis(view.left, view.width, image.width, size, view.mirrored);
  const Axis down = make_axis(view.top, view.height, image.height, size, false);
  // Resample down first, a row at a time and only for the columns under the view: whole rows are combined as
  // vectors. Then across, along each of the few rows that are left, where neighbors of one channel lie
  // `channels` bytes apart.
  const int least = std::ranges::min(across.first);
  const int most = std::ranges::max(across.first);
  const size_t begin = static_cast<size_t>(least) * channels;
  const size_t combined_bytes = static_cast<size_t>(most + across.taps - least) * channels;
  for (int& first : across.first) first -= least;
  std::vector<uint8_t> combined(combined_bytes);
  for (int y = 0; y < size; ++y, out += row_bytes) {
    const auto place = static_cast<size_t>(y);
    const uint8_t* rows = image.pixels + static_cast<size_t>(down.first[place]) * image_row_bytes + begin;
    const int16_t* weights = &down.weights[place * static_cast<size_t>(down.taps)];
    with_taps(down.taps, [&](auto taps) {
      combine_rows(rows, image_row_bytes, weights, taps, combined_bytes, combined.data());
    });
    with_taps(across.taps, [&](auto taps) {
      if (channels == 3) {
        resample_row<3>(combined.data(), across, taps, size, out);
      } else {
        resample_row<1>(combined.data(), across, taps, size, out);
      }
    });
  }
}

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
