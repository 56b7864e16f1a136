#include "lockstep/data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lockstep::data {
namespace {

constexpr int kBits = 14;
constexpr int kHalf = 1 << (kBits - 1);

/// One value of the result as a weighted sum of neighbours in the image, per place along one axis.
struct Axis {
  /// The first pixel that counts, per place.
  std::vector<int> first;
  /// Pixels that count, the same for every place; some weigh nothing.
  int taps = 0;
  /// taps weights per place; they sum to 1 << kBits.
  std::vector<int32_t> weights;
};

Axis make_axis(double begin, double length, int image_length, int size, bool mirrored) {
  const double scale = length / size;
  const double reach = std::max(1.0, scale);
  Axis axis;
  axis.taps = std::min(image_length, static_cast<int>(std::ceil(reach)) * 2 + 1);
  axis.first.resize(static_cast<size_t>(size));
  axis.weights.resize(static_cast<size_t>(size) * static_cast<size_t>(axis.taps));
  std::vector<double> exact(static_cast<size_t>(axis.taps));
  for (int place = 0; place < size; ++place) {
    const int from = mirrored ? size - 1 - place : place;
    const double centre = begin + (from + 0.5) * scale;
    const int first = std::clamp(static_cast<int>(std::floor(centre - reach)), 0, image_length - axis.taps);
    double sum = 0;
    for (int tap = 0; tap < axis.taps; ++tap) {
      const double distance = std::abs(first + tap + 0.5 - centre);
      const double weight = std::max(0.0, 1 - distance / reach);
      exact[static_cast<size_t>(tap)] = weight;
      sum += weight;
    }
    axis.first[static_cast<size_t>(place)] = first;
    int32_t* weights = &axis.weights[static_cast<size_t>(place) * static_cast<size_t>(axis.taps)];
    int32_t left = 1 << kBits;
    int heaviest = 0;
    for (int tap = 0; tap < axis.taps; ++tap) {
      weights[tap] = static_cast<int32_t>(std::lround(exact[static_cast<size_t>(tap)] / sum * (1 << kBits)));
      left -= weights[tap];
      if (weights[tap] > weights[heaviest]) heaviest = tap;
    }
    // What rounding took or gave: a plain area keeps its value exactly.
    weights[heaviest] += left;
  }
  return axis;
}

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>((sum + kHalf) >> kBits);
}

template <int channels>
void resample_row(const uint8_t* row, const Axis& axis, int size, uint8_t* out) {
  const int32_t* weights = axis.weights.data();
  for (int x = 0; x < size; ++x, weights += axis.taps) {
    const uint8_t* from = row + static_cast<size_t>(axis.first[static_cast<size_t>(x)]) * channels;
    int32_t sums[channels] = {};
    for (int tap = 0; tap < axis.taps; ++tap) {
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

}  // namespace

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

  const Axis across = make_axis(view.left, view.width, image.width, size, view.mirrored);
  const Axis down = make_axis(view.top, view.height, image.height, size, false);
  // Only rows that the view needs are resampled, each once.
  const int first_row = down.first.front();
  const int rows = down.first.back() + down.taps - first_row;
  std::vector<uint8_t> narrowed(static_cast<size_t>(rows) * row_bytes);
  for (int y = 0; y < rows; ++y) {
    const uint8_t* row = image.pixels + static_cast<size_t>(first_row + y) * image_row_bytes;
    uint8_t* to = &narrowed[static_cast<size_t>(y) * row_bytes];
    if (channels == 3) {
      resample_row<3>(row, across, size, to);
    } else {
      resample_row<1>(row, across, size, to);
    }
  }
  std::vector<int32_t> sums(row_bytes);
  for (int y = 0; y < size; ++y) {
    std::fill(sums.begin(), sums.end(), 0);
    const int32_t* weights = &down.weights[static_cast<size_t>(y) * static_cast<size_t>(down.taps)];
    const int begin = down.first[static_cast<size_t>(y)] - first_row;
    for (int tap = 0; tap < down.taps; ++tap) {
      const int32_t weight = weights[tap];
      if (weight == 0) continue;
      const uint8_t* row = &narrowed[static_cast<size_t>(begin + tap) * row_bytes];
      for (size_t i = 0; i < row_bytes; ++i) sums[i] += weight * row[i];
    }
    for (size_t i = 0; i < row_bytes; ++i) *out++ = rounded(sums[i]);
  }
}

}  // namespace lockstep::data
