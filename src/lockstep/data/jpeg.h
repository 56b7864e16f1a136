#pragma once

#include <string>
#include <string_view>

#include "lockstep/data/image.h"

namespace lockstep::data {

/// What is asked of a decoder.
struct DecodeOptions {
  /// The view will be resampled to so many pixels on a side: where it is much larger, an image of 1/2, 1/4 or
  /// 1/8 of its size is decoded, the smallest in which the view still has as many.
  int size = 1;
  /// 1 or 3.
  int channels = 3;
};

bool is_jpeg(std::string_view bytes);

/// Decodes what `choose` says is wanted, by libjpeg-turbo. Colours as the file has them: no profile and no
/// orientation is applied. Throws Error that names `name` for what is damaged, truncated or too large; data
/// that are merely odd (bytes between segments) are passed over, as everywhere.
Viewed decode_jpeg(std::string_view bytes, const std::string& name, const DecodeOptions& options,
                   const ChooseView& choose);

}  // namespace lockstep::data
