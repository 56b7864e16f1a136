#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/data/formats.h"

#include "fuzz/reader.h"

namespace lockstep::fuzz {
namespace {

/// Checks that what a reader accepted is consistent in itself.
void read_all(data::Samples samples) {
  if (samples.image_bytes() == 0 || samples.pixels.size() % samples.image_bytes() != 0) {
    throw std::logic_error("pixels that do not make images");
  }
  samples.labels.resize(samples.pixels.size() / samples.image_bytes());
  const auto count = static_cast<int64_t>(samples.labels.size());
  const auto dataset = data::make_array_dataset(std::move(samples), {"any", 10, {}, 2});
  std::vector<uint8_t> out(size_t{5} * 5 * 3);
  for (int64_t sample = 0; sample < std::min<int64_t>(count, 4); ++sample) {
    dataset->read(sample, {.size = 5, .channels = 3, .augmentation = 1}, out.data());
    dataset->read(sample, {.size = 5, .channels = 1}, out.data());
  }
}

template <typename Action>
bool is_read(const Action& action) {
  try {
    action();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool reads_sample_file(std::string_view text) {
  const bool images = is_read([&] { read_all(data::parse_idx_images(text, "images")); });
  const bool labels = is_read([&] { data::parse_idx_labels(text, "labels"); });
  const bool cifar10 = is_read([&] {
    data::Samples samples;
    data::parse_cifar10(text, "data_batch_1.bin", samples);
    read_all(std::move(samples));
  });
  return images || labels || cifar10;
}

}  // namespace lockstep::fuzz
