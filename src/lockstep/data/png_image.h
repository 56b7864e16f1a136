#pragma once

#include <string>
#include <string_view>

#include "lockstep/data/image.h"

namespace lockstep::data {

bool is_png(std::string_view bytes);

/// The whole image, by libpng, as 8-bit sRGB: 16 bits and palettes are converted, transparent parts are
/// black. `channels` is 1 or 3. Throws Error that names `name` for what is damaged, truncated or too large.
Image decode_png(std::string_view bytes, const std::string& name, int channels);

}  // namespace lockstep::data
