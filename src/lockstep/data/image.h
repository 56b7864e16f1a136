#pragma once

#include <cstdint>
#include <functional>
#include <random>
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

/// The random numbers of one sample's augmentation. Only the raw output is used, which the standard
/// specifies, so that views are the same with every standard library.
using Dice = std::mt19937_64;

/// Uniform in [0, 1).
double uniform(Dice& dice);

/// A random part of the image, as usual in training on ImageNet since Inception (Szegedy et al. 2015; the
/// bounds are those of torchvision's RandomResizedCrop): 8 to 100 % of the area, sides 3:4 to 4:3, mirrored
/// every other time.
View random_resized_view(Dimensions image, Dice& dice);

/// A shifted view, as usual in training on CIFAR (He et al. 2016): the image's size without its border of
/// `padding` pixels, anywhere in the bordered image `padded`, mirrored every other time.
View shifted_view(Dimensions padded, int padding, Dice& dice);

/// The middle square, 224/256 of the shorter side: torchvision's Resize(256), CenterCrop(224).
View centre_view(Dimensions image);

/// The whole image; its aspect ratio is not kept.
View whole_view(Dimensions image);

}  // namespace lockstep::data
