#include <stdexcept>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/image.h"

#include "fuzz/reader.h"

namespace lockstep::fuzz {
namespace {

void show(std::string_view file, const data::DecodeOptions& options, const data::ChooseView& choose) {
  const data::Viewed viewed = data::decode(file, "image.jpg", options, choose);
  if (viewed.image.channels != options.channels) throw std::logic_error("not the channels asked for");
  constexpr int kSize = 9;
  std::vector<uint8_t> out(size_t{kSize} * kSize * static_cast<size_t>(options.channels));
  data::resample(viewed.image, viewed.view, kSize, out.data());
}

}  // namespace

bool reads_image_file(std::string_view text) {
  data::Dice dice(text.size());
  const auto any_part = [&](data::Dimensions image) { return data::random_resized_view(image, dice); };
  try {
    show(text, {.size = 9, .channels = 3}, any_part);
    show(text, {.size = 1 << 20, .channels = 1}, any_part);
    show(text, {.size = 9, .channels = 3}, data::centre_view);
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace lockstep::fuzz
