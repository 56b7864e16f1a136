#include "lockstep/data/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/image.h"

#include "data/encoded.h"
#include "data/messages.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kWhole = 1 << 20;

Viewed decode_whole(const std::string& file, int channels = 3, int size = kWhole) {
  return decode(file, "some.jpg", {.size = size, .channels = channels}, whole_view);
}

Image sample_of(const Image& image, const View& view, int size) {
  Image result{size, size, image.channels, {}};
  result.pixels.resize(static_cast<size_t>(size) * static_cast<size_t>(size) *
                       static_cast<size_t>(image.channels));
  resample(image, view, size, result.pixels.data());
  return result;
}

std::string refusal_of(const std::string& file) {
  return message_of([&] { decode_whole(file); });
}

TEST(DecodeTest, a_jpeg_is_what_was_written_but_for_its_losses) {
  const Image image = picture(61, 47);
  for (const bool progressive : {false, true}) {
    const Viewed read = decode_whole(jpeg_of(image, {.quality = 98, .progressive = progressive}));
    EXPECT_LT(difference(read.image, image), 2.5) << progressive;
  }
}

TEST(DecodeTest, a_png_is_exactly_what_was_written) {
  for (const int channels : {1, 3}) {
    const Image image = picture(33, 21, channels);
    EXPECT_EQ(decode_whole(png_of(image), channels).image.pixels, image.pixels);
  }
}

TEST(DecodeTest, gray_becomes_colour_and_colour_gray) {
  const Image gray = picture(40, 24, 1);
  EXPECT_EQ(decode_whole(png_of(gray), 3).image.pixels, with_channels(gray, 3).pixels);
  EXPECT_LT(difference(decode_whole(jpeg_of(gray), 3).image, with_channels(gray, 3)), 2);
  const Image colour = picture(40, 24);
  EXPECT_EQ(decode_whole(png_of(colour), 1).image.pixels, with_channels(colour, 1).pixels);
  EXPECT_LT(difference(decode_whole(jpeg_of(colour), 1).image, with_channels(colour, 1)), 2);
  // Luma by its definition, in the first and the last pixel.
  const Image luma = with_channels({2, 1, 3, {100, 200, 50, 255, 255, 255}}, 1);
  EXPECT_THAT(luma.pixels, testing::ElementsAre(153, 255));
}

TEST(DecodeTest, a_jpeg_of_four_inks_has_its_colours) {
  const Image image = picture(48, 48);
  EXPECT_LT(difference(decode_whole(jpeg_of(image, {.inks = true})).image, image), 3);
}

TEST(DecodeTest, a_transparent_png_stands_on_black) {
  const Image image{2, 1, 4, {200, 100, 50, 255, 200, 100, 50, 0}};
  EXPECT_THAT(decode_whole(png_of(image)).image.pixels, testing::ElementsAre(200, 100, 50, 0, 0, 0));
}

TEST(DecodeTest, a_view_shows_the_same_whether_decoded_small_or_whole) {
  const Image image = picture(640, 480);
  const std::string file = jpeg_of(image);
  for (const View& view : {View{0, 0, 640, 480}, View{101, 53, 400, 300}, View{1, 400, 80, 80}}) {
    for (const int size : {30, 57, 64, 120, 230}) {
      const auto choose = [&](Dimensions) { return view; };
      const Viewed small = decode(file, "some.jpg", {.size = size}, choose);
      const Image expected = sample_of(image, view, size);
      EXPECT_LT(difference(sample_of(small.image, small.view, size), expected), 3)
          << view.width << " to " << size;
    }
  }
}

TEST(DecodeTest, decodes_the_smallest_image_that_suffices_and_no_row_beyond_the_view) {
  const std::string file = jpeg_of(picture(640, 480));
  const auto width_at = [&](int size) { return decode_whole(file, 3, size).image.width; };
  EXPECT_EQ(width_at(60), 80);
  EXPECT_EQ(width_at(61), 160);
  EXPECT_EQ(width_at(120), 160);
  EXPECT_EQ(width_at(240), 320);
  EXPECT_EQ(width_at(241), 640);
  EXPECT_EQ(width_at(5000), 640);
  const Viewed part = decode(file, "some.jpg", {.size = 100}, [](Dimensions) {
    return View{0, 200, 150, 150};
  });
  EXPECT_EQ(part.image.height, 156);
  EXPECT_EQ(part.view.top, 3);
}

TEST(DecodeTest, every_truncated_file_is_refused_by_name) {
  for (const std::string& file :
       {jpeg_of(picture(64, 48)), jpeg_of(picture(64, 48), {.progressive = true}), png_of(picture(64, 48))}) {
    // The last bytes of either say only that the file ends.
    for (size_t size = 2; size + 16 < file.size(); size += 7) {
      EXPECT_THAT(refusal_of(file.substr(0, size)), HasSubstr("some.jpg")) << size << " of " << file.size();
    }
  }
  EXPECT_THAT(refusal_of(jpeg_of(picture(64, 48)).substr(0, 700)), HasSubstr("not a whole JPEG image"));
  EXPECT_THAT(refusal_of(png_of(picture(64, 48)).substr(0, 200)), HasSubstr("not a whole PNG image"));
}

TEST(DecodeTest, what_is_no_image_is_refused_by_name) {
  EXPECT_THAT(refusal_of(""), AllOf(HasSubstr("some.jpg"), HasSubstr("empty")));
  EXPECT_THAT(refusal_of("GIF89a"), HasSubstr("neither a JPEG nor a PNG"));
}

TEST(DecodeTest, absurd_dimensions_are_refused_before_there_is_memory_for_them) {
  std::string jpeg = jpeg_of(picture(64, 48));
  // The frame's header: FF C0, 2 bytes of length, 1 of precision, height, width.
  const size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xFD\xE8\xFD\xE8");
  EXPECT_THAT(refusal_of(jpeg), AllOf(HasSubstr("some.jpg"), HasSubstr("65000 x 65000")));
  EXPECT_THAT(message_of([] { check_dimensions(0, 5, "some.jpg"); }), HasSubstr("0 x 5"));
  check_dimensions(kMostPixels, 1, "some.jpg");
}

TEST(DecodeTest, a_file_of_endless_scans_is_refused) {
  std::string jpeg = jpeg_of(picture(16, 16), {.progressive = true});
  const size_t begin = jpeg.rfind("\xFF\xDA");
  const std::string scan = jpeg.substr(begin, jpeg.size() - 2 - begin);
  for (int i = 0; i < 300; ++i) jpeg.insert(begin, scan);
  const std::string refusal = refusal_of(jpeg);
  EXPECT_THAT(refusal, AllOf(HasSubstr("some.jpg"), HasSubstr("not a whole JPEG")));
}

}  // namespace
}  // namespace lockstep::data
