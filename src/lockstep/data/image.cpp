#include "lockstep/data/image.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::data {

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

}  // namespace lockstep::data
