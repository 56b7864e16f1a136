#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/formats.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

constexpr int kSide = 32;
constexpr size_t kPixels = size_t{kSide} * kSide;
constexpr size_t kRecord = 1 + 3 * kPixels;
constexpr int kClasses = 10;
/// The archive has five files for training.
constexpr int kTrainingFiles = 5;
/// The padding of He et al. 2016.
constexpr int kPadding = 4;
/// Statistics of all pixels of the training images, per channel.
constexpr Normalization kCifarStatistics{{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};

/// The folder itself, or the one that the archive unpacks to inside of it.
fs::path folder_of_files(const fs::path& folder) {
  const fs::path unpacked = folder / "cifar-10-batches-bin";
  return fs::is_directory(unpacked) ? unpacked : folder;
}

fs::path training_file(const fs::path& folder, int number) {
  return folder / fmt::format("data_batch_{}.bin", number);
}

}  // namespace

void parse_cifar10(std::string_view bytes, const std::string& name, Samples& samples) {
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    throw Error(fmt::format("'{}' has {} bytes, which is no multiple of CIFAR-10's {} bytes per image", name,
                            bytes.size(), kRecord),
                "It may have been truncated, or be of another data set.");
  }
  samples.width = samples.height = kSide;
  samples.channels = 3;
  const size_t count = bytes.size() / kRecord;
  const size_t before = samples.pixels.size();
  samples.pixels.resize(before + count * 3 * kPixels);
  uint8_t* out = samples.pixels.data() + before;
  for (size_t i = 0; i < count; ++i) {
    const auto* record = reinterpret_cast<const uint8_t*>(bytes.data()) + i * kRecord;
    if (record[0] >= kClasses) {
      throw Error(fmt::format("'{}': the label of image {} is {}, but CIFAR-10's are 0 to {}", name, i,
                              record[0], kClasses - 1),
                  "It may be of another data set.");
    }
    samples.labels.push_back(record[0]);
    // Planes to interleaved channels.
    for (size_t p = 0; p < kPixels; ++p) {
      for (size_t c = 0; c < 3; ++c) *out++ = record[1 + c * kPixels + p];
    }
  }
}

bool has_cifar10_files(const fs::path& folder) {
  const fs::path files = folder_of_files(folder);
  if (fs::exists(files / "test_batch.bin")) return true;
  for (int number = 1; number <= kTrainingFiles; ++number) {
    if (fs::exists(training_file(files, number))) return true;
  }
  return false;
}

std::shared_ptr<const Dataset> open_cifar10(const fs::path& folder, Split split) {
  const fs::path files = folder_of_files(folder);
  Samples samples;
  const auto add = [&](const fs::path& path) { parse_cifar10(read_file(path), path.string(), samples); };
  if (split == Split::kEvaluation) {
    add(files / "test_batch.bin");
  } else {
    // All five, or an error: with one missing, training would silently use fewer images.
    for (int number = 1; number <= kTrainingFiles; ++number) add(training_file(files, number));
  }
  return make_array_dataset(std::move(samples), {"CIFAR-10", kClasses, kCifarStatistics, kPadding});
}

}  // namespace lockstep::data
