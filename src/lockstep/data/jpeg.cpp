#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <jpeglib.h>
// Its declarations depend on jpeglib.h.
#include <jerror.h>

#include "lockstep/base/error.h"
#include "lockstep/data/decode.h"

namespace lockstep::data {
namespace {

/// The most scans of a progressive file. A file of a few kilobytes may announce any number of them, each of
/// which costs a pass over the whole image; encoders write about ten.
constexpr int kMostScans = 200;

/// Rows around the view that resampling looks at.
constexpr int kMargin = 3;

/// libjpeg calls these instead of printing and exiting.
struct Handlers {
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = "";
};

Handlers& handlers_of(j_common_ptr info) {
  return *static_cast<Handlers*>(info->client_data);
}

[[noreturn]] void leave(j_common_ptr info) {
  Handlers& handlers = handlers_of(info);
  info->err->format_message(info, handlers.message);
  std::longjmp(handlers.jump, 1);
}

/// Treats warnings as errors if libjpeg invents pixels after them.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
      leave(info);
    default:
      return;
  }
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  Handlers& handlers = handlers_of(info);
  std::snprintf(handlers.message, sizeof handlers.message, "more than %d scans", kMostScans);
  std::longjmp(handlers.jump, 1);
}

/// The calls into libjpeg, which reports errors by a long jump. A function that sets the jump's target
/// returns false after it, for its caller to throw, and has no locals with a destructor, since none would
/// run.
class Decompressor {
 public:
  explicit Decompressor(std::string_view bytes) : bytes_(bytes) {}
  ~Decompressor() { jpeg_destroy_decompress(&info_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  bool read_header() {
    info_.err = jpeg_std_error(&handlers_.errors);
    handlers_.errors.error_exit = leave;
    handlers_.errors.emit_message = on_message;
    handlers_.progress.progress_monitor = on_progress;
    info_.client_data = &handlers_;
    if (setjmp(handlers_.jump) != 0) return false;
    // Clears all members but err and client_data.
    jpeg_create_decompress(&info_);
    info_.progress = &handlers_.progress;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool start(int eighths, int channels) {
    if (setjmp(handlers_.jump) != 0) return false;
    info_.scale_num = static_cast<unsigned>(eighths);
    info_.scale_denom = 8;
    const bool inks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&info_);
    return true;
  }

  /// Reads rows `first` to `first` + `count` into `out`; the rows before, which have to be decoded as well,
  /// go into `spare`. The rows after them are not decoded.
  bool read_rows(int first, int count, uint8_t* out, uint8_t* spare) {
    if (setjmp(handlers_.jump) != 0) return false;
    while (info_.output_scanline < static_cast<JDIMENSION>(first + count)) {
      const int row = static_cast<int>(info_.output_scanline) - first;
      JSAMPROW to = row < 0 ? spare : out + static_cast<size_t>(row) * row_bytes();
      if (jpeg_read_scanlines(&info_, &to, 1) == 0) return false;
    }
    return true;
  }

  const jpeg_decompress_struct& info() const { return info_; }
  size_t row_bytes() const {
    return static_cast<size_t>(info_.output_width) * static_cast<size_t>(info_.output_components);
  }
  const char* message() const { return handlers_.message; }

 private:
  std::string_view bytes_;
  Handlers handlers_;
  jpeg_decompress_struct info_{};
};

/// The smallest of 1, 2, 4 and 8 eighths at which the view keeps `size` pixels on both sides. libjpeg-turbo
/// offers all eighths, but only these have vector code: bench/decode shows what the others cost.
int eighths_for(const View& view, int size) {
  for (const int eighths : {1, 2, 4}) {
    if (std::min(view.width, view.height) * eighths >= 8. * size) return eighths;
  }
  return 8;
}

/// Converts four inks to red, green and blue. Adobe's files hold the inks inverted.
Image without_inks(const Image& image, bool inverted) {
  Image colours{image.width, image.height, 3, {}};
  const size_t count = image.pixels.size() / 4;
  colours.pixels.resize(3 * count);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* from = &image.pixels[4 * i];
    const int black = inverted ? from[3] : 255 - from[3];
    for (size_t c = 0; c < 3; ++c) {
      const int ink = inverted ? from[c] : 255 - from[c];
      colours.pixels[3 * i + c] = static_cast<uint8_t>((ink * black + 127) / 255);
    }
  }
  return colours;
}

}  // namespace

bool is_jpeg(std::string_view bytes) {
  return bytes.starts_with("\xFF\xD8");
}

Viewed decode_jpeg(std::string_view bytes, const std::string& name, const DecodeOptions& options,
                   const ChooseView& choose) {
  Decompressor file(bytes);
  const auto require = [&](bool done) {
    if (done) return;
    throw Error(fmt::format("'{}' is not a whole JPEG image: {}", name, file.message()),
                "The file is damaged or truncated: replace or remove it.");
  };
  require(file.read_header());
  const jpeg_decompress_struct& info = file.info();
  check_dimensions(info.image_width, info.image_height, name);
  View view = choose({static_cast<int>(info.image_width), static_cast<int>(info.image_height)});
  const int eighths = eighths_for(view, options.size);
  require(file.start(eighths, options.channels));
  for (double* side : {&view.left, &view.top, &view.width, &view.height}) *side *= eighths / 8.;

  const int height = static_cast<int>(info.output_height);
  const int first = std::max(0, static_cast<int>(std::floor(view.top)) - kMargin);
  const int end = std::min(height, static_cast<int>(std::ceil(view.top + view.height)) + kMargin);
  Image image{static_cast<int>(info.output_width), end - first, info.output_components, {}};
  image.pixels.resize(file.row_bytes() * static_cast<size_t>(image.height));
  std::vector<uint8_t> spare(file.row_bytes());
  require(file.read_rows(first, image.height, image.pixels.data(), spare.data()));
  view.top -= first;
  if (image.channels == 4) image = without_inks(image, info.saw_Adobe_marker != 0);
  return {with_channels(std::move(image), options.channels), view};
}

}  // namespace lockstep::data
