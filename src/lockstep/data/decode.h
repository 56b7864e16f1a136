#pragma once

#include <string>
#include <string_view>

#include "lockstep/data/image.h"

namespace lockstep::data {

/// Requests to a decoder.
struct DecodeOptions {
  /// Pixels per side that the view will be resampled to. If the view is much larger, the image is decoded at
  /// 1/2, 1/4 or 1/8 of its size, the smallest in which the view still has this many pixels.
  int size = 1;
  /// 1 or 3.
  int channels = 3;
};

/// Decodes a JPEG or PNG image; its first bytes decide which. Throws Error that names `name` for anything
/// else, and for images that are damaged, truncated or too large.
Viewed decode(std::string_view bytes, const std::string& name, const DecodeOptions& options,
              const ChooseView& choose);

/// Decodes a whole PNG image, by libpng, as 8-bit sRGB: 16 bits and palettes are converted, transparent parts
/// become black. `channels` is 1 or 3. Throws Error that names `name` for an image that is damaged, truncated
/// or too large.
Image decode_png(std::string_view bytes, const std::string& name, int channels);

bool is_jpeg(std::string_view bytes);

/// Decodes the rows of the view that `choose` returns, by libjpeg-turbo. Colors are those of the file: no
/// profile and no orientation is applied. Throws Error that names `name` for an image that is damaged,
/// truncated or too large; merely odd data (bytes between segments) are ignored, as other decoders do.
Viewed decode_jpeg(std::string_view bytes, const std::string& name, const DecodeOptions& options,
                   const ChooseView& choose);

}  // namespace lockstep::data
