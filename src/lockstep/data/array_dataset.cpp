#include <cstring>

#include "lockstep/data/formats.h"
#include "lockstep/data/image.h"

namespace lockstep::data {
namespace {

/// Adds a black border.
Image padded(const ImageRef& image, int padding) {
  Image result{image.width + 2 * padding, image.height + 2 * padding, image.channels, {}};
  const auto channels = static_cast<size_t>(image.channels);
  const size_t to_row = static_cast<size_t>(result.width) * channels;
  const size_t from_row = static_cast<size_t>(image.width) * channels;
  result.pixels.resize(to_row * static_cast<size_t>(result.height));
  for (int y = 0; y < image.height; ++y) {
    std::memcpy(
        &result.pixels[static_cast<size_t>(y + padding) * to_row + static_cast<size_t>(padding) * channels],
        image.pixels + static_cast<size_t>(y) * from_row, from_row);
  }
  return result;
}

class ArrayDataset final : public Dataset {
 public:
  ArrayDataset(Samples samples, ArrayKind kind) : samples_(std::move(samples)), kind_(std::move(kind)) {}

  std::string kind() const override { return kind_.name; }
  int64_t size() const override { return static_cast<int64_t>(samples_.labels.size()); }
  int64_t classes() const override { return kind_.classes; }
  int64_t label(int64_t sample) const override { return samples_.labels[static_cast<size_t>(sample)]; }
  Normalization normalization() const override { return kind_.normalization; }

  void read(int64_t sample, const ReadOptions& options, uint8_t* out) const override {
    const ImageRef image(samples_.width, samples_.height, samples_.channels,
                         &samples_.pixels[static_cast<size_t>(sample) * samples_.image_bytes()]);
    // MNIST has no padding: digits are neither shifted nor mirrored.
    if (options.augmentation && kind_.padding > 0) {
      Dice dice(*options.augmentation);
      const Image wide = padded(image, kind_.padding);
      write(wide, shifted_view({wide.width, wide.height}, kind_.padding, dice), options, out);
    } else {
      write(image, whole_view({image.width, image.height}), options, out);
    }
  }

 private:
  static void write(const ImageRef& image, const View& view, const ReadOptions& options, uint8_t* out) {
    if (image.channels == options.channels) {
      resample(image, view, options.size, out);
      return;
    }
    // Resample with the channels of the data, then convert.
    const auto pixels = static_cast<size_t>(options.size) * static_cast<size_t>(options.size);
    Image sample{options.size, options.size, image.channels, {}};
    sample.pixels.resize(pixels * static_cast<size_t>(image.channels));
    resample(image, view, options.size, sample.pixels.data());
    sample = with_channels(std::move(sample), options.channels);
    std::memcpy(out, sample.pixels.data(), sample.pixels.size());
  }

  Samples samples_;
  ArrayKind kind_;
};

}  // namespace

std::shared_ptr<const Dataset> make_array_dataset(Samples samples, ArrayKind kind) {
  return std::make_shared<ArrayDataset>(std::move(samples), std::move(kind));
}

}  // namespace lockstep::data
