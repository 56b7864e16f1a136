#pragma once

#include <string>

#include "lockstep/data/image.h"

namespace lockstep::data {

/// A picture with gradients and an edge, different in every channel: what is lost, moved or turned shows.
Image picture(int width, int height, int channels = 3);

struct JpegForm {
  int quality = 95;
  bool progressive = false;
  /// Four inks as Adobe writes them (inverted), made of the picture's colours without black.
  bool inks = false;
};

/// Files as libjpeg and libpng write them.
std::string jpeg_of(const Image& image, const JpegForm& form = {});
std::string png_of(const Image& image);

/// The mean absolute difference of two images of the same shape.
double difference(const Image& a, const Image& b);

}  // namespace lockstep::data
