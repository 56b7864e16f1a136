#include "data/encoded.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <jpeglib.h>
#include <png.h>

namespace lockstep::data {
namespace {

/// Cyan, magenta, yellow and no black, 255 meaning no ink.
Image with_inks(const Image& image) {
  Image inks{image.width, image.height, 4, {}};
  for (size_t i = 0; i < image.pixels.size(); i += 3) {
    inks.pixels.insert(inks.pixels.end(), {image.pixels[i], image.pixels[i + 1], image.pixels[i + 2], 255});
  }
  return inks;
}

}  // namespace

Image picture(int width, int height, int channels) {
  Image image{width, height, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int across = 200 * x / width;
        const int down = 200 * y / height;
        const bool corner = 3 * x < width && 4 * y < height;
        const int value = c == 0 ? across : c == 1 ? down : 200 - (across + down) / 2;
        image.pixels.push_back(static_cast<uint8_t>(value + (corner ? 50 : 0)));
      }
    }
  }
  return image;
}

std::string jpeg_of(const Image& picture, const JpegForm& form) {
  const Image image = form.inks ? with_inks(picture) : picture;
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = image.channels;
  info.in_color_space = image.channels == 4 ? JCS_CMYK : image.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  if (form.inks) jpeg_set_colorspace(&info, JCS_YCCK);
  jpeg_set_quality(&info, form.quality, TRUE);
  if (form.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const auto row_bytes = static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(image.pixels.data() + info.next_scanline * row_bytes);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return file;
}

std::string png_of(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 4 ? PNG_FORMAT_RGBA : image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string file(size, '\0');
  if (png_image_write_to_memory(&png, file.data(), &size, 0, image.pixels.data(), 0, nullptr) == 0) {
    throw std::logic_error(png.message);
  }
  file.resize(size);
  return file;
}

double difference(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height || a.channels != b.channels) return 255;
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(a.pixels[i] - b.pixels[i]);
  return sum / static_cast<double>(a.pixels.size());
}

}  // namespace lockstep::data
