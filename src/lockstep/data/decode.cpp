#include "lockstep/data/decode.h"

#include <fmt/format.h>
#include <png.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

bool is_png(std::string_view bytes) {
  return bytes.starts_with("\x89PNG");
}

/// libpng's interface for whole images, which catches libpng's long jumps itself.
class PngFile {
 public:
  PngFile() { image.version = PNG_IMAGE_VERSION; }
  ~PngFile() { png_image_free(&image); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  png_image image{};
};

}  // namespace

Image decode_png(std::string_view bytes, const std::string& name, int channels) {
  PngFile file;
  const auto require = [&](int done) {
    if (done != 0) return;
    throw Error(fmt::format("'{}' is not a whole PNG image: {}", name, file.image.message),
                "The file is damaged or truncated: replace or remove it.");
  };
  require(png_image_begin_read_from_memory(&file.image, bytes.data(), bytes.size()));
  // Check before allocating: the header of a damaged file may announce any size.
  check_dimensions(file.image.width, file.image.height, name);
  // Values without a stated color space are sRGB, including those of 16 bits.
  file.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  const bool colour = (file.image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  file.image.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Image image{static_cast<int>(file.image.width), static_cast<int>(file.image.height), colour ? 3 : 1, {}};
  image.pixels.resize(PNG_IMAGE_SIZE(file.image));
  const png_color black{0, 0, 0};
  require(png_image_finish_read(&file.image, &black, image.pixels.data(), 0, nullptr));
  return with_channels(std::move(image), channels);
}

Viewed decode(std::string_view bytes, const std::string& name, const DecodeOptions& options,
              const ChooseView& choose) {
  if (is_jpeg(bytes)) return decode_jpeg(bytes, name, options, choose);
  if (!is_png(bytes)) {
    throw Error(fmt::format("'{}' is neither a JPEG nor a PNG image", name),
                bytes.empty() ? "It is empty: replace or remove it." : "Convert, replace or remove it.");
  }
  Image image = decode_png(bytes, name, options.channels);
  const View view = choose({image.width, image.height});
  return {std::move(image), view};
}

}  // namespace lockstep::data
