#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::data {

struct Dimensions {
  int width = 0;
  int height = 0;
};

/// The most pixels of an image; no photograph has more, but a damaged header easily announces more.
constexpr int64_t kMostPixels = 100'000'000;

/// Throws Error that names `name` unless both sides are positive and kMostPixels is respected.
void check_dimensions(int64_t width, int64_t height, const std::string& name);

/// 8 bits per value, rows from the top, channels interleaved (1: gray, 3: red, green, blue).
struct Image {
  int width = 0;
  int height = 0;
  int channels = 0;
  std::vector<uint8_t> pixels;
};

/// An image in memory that another object owns.
struct ImageRef {
  ImageRef(int width_pixels, int height_pixels, int channel_count, const uint8_t* values)
      : width(width_pixels), height(height_pixels), channels(channel_count), pixels(values) {}
  // NOLINTNEXTLINE(google-explicit-constructor): an Image is one.
  ImageRef(const Image& image) : ImageRef(image.width, image.height, image.channels, image.pixels.data()) {}

  int width;
  int height;
  int channels;
  const uint8_t* pixels;
};

/// Gray to colour by repeating, colour to gray by luma (Rec. 601). `channels` is 1 or 3.
Image with_channels(Image image, int channels);

/// The part of an image that becomes a sample, in pixels; edges may lie between pixels.
struct View {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
  bool mirrored = false;
};

/// Resamples the view to `size` x `size` pixels in `out` (channels interleaved). Bilinear; along an axis that
/// shrinks, the triangle of weights widens accordingly, so that no pixel is skipped (as in Pillow). The view
/// lies inside the image. Pixels beside the view count if the image has them; at its edge the weights of the
/// remaining pixels are scaled up. Weights are in fixed point.
void resample(const ImageRef& image, const View& view, int size, uint8_t* out);

/// Chooses a view once an image's dimensions are known, before the rest of it is decoded.
using ChooseView = std::function<View(Dimensions)>;

/// An image that holds at least the part under the view; the view is in pixels of this image.
struct Viewed {
  Image image;
  View view;
};

}  // namespace lockstep::data
