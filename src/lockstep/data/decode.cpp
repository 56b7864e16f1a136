#include "lockstep/data/decode.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/png_image.h"

namespace lockstep::data {

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
