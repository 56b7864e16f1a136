// Cost of reading an image of the input `dataset` beside libjpeg-turbo's bare loop, on one core, in turn.
//
//   build/bench/decode [FILE.jpg] [REPEATS]     without a file: a picture of 500 x 375 made here

#include "lockstep/data/decode.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <jpeglib.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/image.h"

namespace {

using namespace lockstep;

constexpr int kSize = 224;
constexpr int kWhole = 1 << 20;

/// Smooth shapes with grain, at the quality that photographs usually have.
std::string make_jpeg(int width, int height) {
  std::mt19937 dice(1);
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int shape = (x / 37 * 29 + y / 23 * 41) % 160;
      for (int c = 0; c < 3; ++c) {
        pixels.push_back(static_cast<uint8_t>(shape + 20 * c + int(dice() % 24)));
      }
    }
  }
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + size_t{info.next_scanline} * static_cast<size_t>(width) * 3;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return file;
}

/// The whole image at M/8 of its size into memory that is there already, and nothing else. Its pixels.
size_t decode_bare(const std::string& file, int eighths, std::vector<uint8_t>& pixels) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.scale_num = static_cast<unsigned>(eighths);
  info.scale_denom = 8;
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  const size_t row_bytes = size_t{info.output_width} * 3;
  pixels.resize(std::max(pixels.size(), row_bytes * info.output_height));
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  const size_t count = size_t{info.output_width} * info.output_height;
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return count;
}

struct Way {
  std::string name;
  std::function<void()> run;
  std::vector<double> times_s;
};

double median_s(std::vector<double> times_s) {
  std::sort(times_s.begin(), times_s.end());
  return times_s[times_s.size() / 2];
}

/// One of each in every round, so that a drift of the machine favours none.
void measure(std::vector<Way>& ways, int repeats) {
  for (int round = -3; round < repeats; ++round) {
    for (Way& way : ways) {
      const double begin_s = now_s();
      way.run();
      if (round >= 0) way.times_s.push_back(now_s() - begin_s);
    }
  }
}

int run(const std::string& file, int repeats) {
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> sample(size_t{kSize} * kSize * 3);
  data::Dice dice(1);
  const auto part = [&](data::Dimensions image) { return data::random_resized_view(image, dice); };
  const auto show = [&](const data::ChooseView& choose) {
    const data::Viewed viewed = data::decode(file, "image.jpg", {.size = kSize}, choose);
    data::resample(viewed.image, viewed.view, kSize, sample.data());
  };
  std::vector<Way> ways;
  ways.push_back({"libjpeg-turbo, whole", [&] { decode_bare(file, 8, pixels); }, {}});
  ways.push_back(
      {"lockstep, whole", [&] { data::decode(file, "image.jpg", {.size = kWhole}, data::whole_view); }, {}});
  ways.push_back({fmt::format("lockstep, random part to {}", kSize), [&] { show(part); }, {}});
  ways.push_back({fmt::format("lockstep, middle to {}", kSize), [&] { show(data::centre_view); }, {}});
  for (int eighths = 1; eighths < 8; ++eighths) {
    ways.push_back({fmt::format("libjpeg-turbo, whole at {}/8", eighths),
                    [&, eighths] { decode_bare(file, eighths, pixels); },
                    {}});
  }
  measure(ways, repeats);

  const double megapixels = static_cast<double>(decode_bare(file, 8, pixels)) / 1e6;
  const double bare_s = median_s(ways.front().times_s);
  fmt::print("{:.2f} megapixels, {} bytes, one core, median of {}\n", megapixels, file.size(), repeats);
  fmt::print("{:<32} {:>8} {:>10} {:>14} {:>9}\n", "", "ms", "images/s", "megapixels/s", "relative");
  for (const Way& way : ways) {
    const double s = median_s(way.times_s);
    fmt::print("{:<32} {:>8.3f} {:>10.1f} {:>14.1f} {:>9.2f}\n", way.name, s * 1e3, 1 / s, megapixels / s,
               bare_s / s);
  }
  return kExitDone;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string file = argc > 1 ? read_file(argv[1]) : make_jpeg(500, 375);
    return run(file, argc > 2 ? std::max(1, std::atoi(argv[2])) : 201);
  } catch (const Error& error) {
    fmt::print(stderr, "{}; {}\n", error.what(), error.advice());
    return kExitFailed;
  }
}
