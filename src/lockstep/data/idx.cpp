#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/formats.h"
#include "lockstep/data/image.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

constexpr uint32_t kImages = 0x803;
constexpr uint32_t kLabels = 0x801;
/// Statistics of all pixels of MNIST's training images.
constexpr Normalization kMnistStatistics{{0.1307F, 0.1307F, 0.1307F}, {0.3081F, 0.3081F, 0.3081F}};

/// The 32-bit number at place `index` of the header.
uint32_t number_at(std::string_view bytes, size_t index, const std::string& name) {
  if (bytes.size() < 4 * (index + 1)) {
    throw Error(fmt::format("'{}' is too short for an IDX file: {} bytes", name, bytes.size()),
                "It may have been truncated: copy it again.");
  }
  uint32_t number = 0;
  for (const char byte : bytes.substr(4 * index, 4)) number = number << 8U | static_cast<unsigned char>(byte);
  return number;
}

void check_magic(std::string_view bytes, uint32_t wanted, const std::string& name) {
  if (bytes.starts_with("\x1F\x8B")) {
    throw Error(fmt::format("'{}' is compressed", name), "Run gunzip on it.");
  }
  const uint32_t magic = number_at(bytes, 0, name);
  if (magic == wanted) return;
  throw Error(fmt::format("'{}' begins with 0x{:08x}, but an IDX file of {} begins with 0x{:08x}", name,
                          magic, wanted == kImages ? "images" : "labels", wanted),
              magic == kImages || magic == kLabels ? "The files of images and labels may have changed places."
                                                   : "It may not be an IDX file at all.");
}

void check_size(std::string_view bytes, size_t header, uint64_t expected, const std::string& name) {
  if (bytes.size() - header == expected) return;
  throw Error(fmt::format("'{}' has {} bytes after its header, which announces {}", name,
                          bytes.size() - header, expected),
              "It may have been truncated: copy it again.");
}

/// The path by MNIST's own names; some archives have a dot in place of a hyphen.
fs::path file_of(const fs::path& folder, Split split, bool images) {
  const std::string prefix = split == Split::kTraining ? "train-" : "t10k-";
  const std::string what = images ? "images" : "labels";
  const std::string kind = images ? "idx3-ubyte" : "idx1-ubyte";
  for (const char* joint : {"-", "."}) {
    for (const char* ending : {"", ".gz"}) {
      fs::path path = folder / (prefix + what + joint + kind + ending);
      if (fs::exists(path)) return path;
    }
  }
  return folder / (prefix + what + "-" + kind);
}

}  // namespace

Samples parse_idx_images(std::string_view bytes, const std::string& name) {
  check_magic(bytes, kImages, name);
  const uint64_t count = number_at(bytes, 1, name);
  const uint64_t rows = number_at(bytes, 2, name);
  const uint64_t columns = number_at(bytes, 3, name);
  if (count == 0) throw Error(fmt::format("'{}' has no image", name));
  check_dimensions(static_cast<int64_t>(columns), static_cast<int64_t>(rows), name);
  constexpr size_t kHeader = 16;
  // No overflow: the product is below 2^32 * kMostPixels.
  check_size(bytes, kHeader, count * rows * columns, name);
  Samples samples{static_cast<int>(columns), static_cast<int>(rows), 1, {}, {}};
  samples.pixels.assign(bytes.begin() + kHeader, bytes.end());
  return samples;
}

std::vector<uint8_t> parse_idx_labels(std::string_view bytes, const std::string& name) {
  check_magic(bytes, kLabels, name);
  const uint64_t count = number_at(bytes, 1, name);
  constexpr size_t kHeader = 8;
  check_size(bytes, kHeader, count, name);
  return {bytes.begin() + kHeader, bytes.end()};
}

bool has_idx_files(const fs::path& folder) {
  for (const Split split : {Split::kTraining, Split::kEvaluation}) {
    for (const bool images : {true, false}) {
      if (fs::exists(file_of(folder, split, images))) return true;
    }
  }
  return false;
}

std::shared_ptr<const Dataset> open_idx(const fs::path& folder, Split split) {
  const fs::path images = file_of(folder, split, true);
  const fs::path labels = file_of(folder, split, false);
  Samples samples = parse_idx_images(read_file(images), images.string());
  samples.labels = parse_idx_labels(read_file(labels), labels.string());
  const size_t count = samples.pixels.size() / samples.image_bytes();
  if (samples.labels.size() != count) {
    throw Error(fmt::format("'{}' has {} labels, but '{}' has {} images", labels.string(),
                            samples.labels.size(), images.string(), count),
                "They may not belong together.");
  }
  // The files do not say how many classes there are, and data sets differ (EMNIST has 47).
  const int64_t classes = 1 + *std::ranges::max_element(samples.labels);
  return make_array_dataset(std::move(samples), {"MNIST", classes, kMnistStatistics, 0});
}

}  // namespace lockstep::data
