#pragma once

#include "lockstep/data/jpeg.h"

namespace lockstep::data {

/// Decodes a JPEG or PNG image; its first bytes tell which. Throws Error that names `name` for anything else,
/// and for images that are damaged, truncated or too large.
Viewed decode(std::string_view bytes, const std::string& name, const DecodeOptions& options,
              const ChooseView& choose);

/// Decodes a whole PNG image, by libpng, as 8-bit sRGB: 16 bits and palettes are converted, transparent parts
/// become black. `channels` is 1 or 3. Throws Error that names `name` for an image that is damaged, truncated
/// or too large.
Image decode_png(std::string_view bytes, const std::string& name, int channels);

}  // namespace lockstep::data
