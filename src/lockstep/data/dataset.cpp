#include "lockstep/data/dataset.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/formats.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

struct Format {
  const char* what;
  bool (*is_there)(const fs::path& folder);
  std::shared_ptr<const Dataset> (*open)(const fs::path& folder, Split split);
};

constexpr Format kFormats[] = {
    {"MNIST's IDX files", has_idx_files, open_idx},
    {"CIFAR-10's binary files", has_cifar10_files, open_cifar10},
    {"folders of images", has_class_folders, open_image_folder},
};

const Format& recognise(const fs::path& folder) {
  const Format* found = nullptr;
  for (const Format& format : kFormats) {
    if (!format.is_there(folder)) continue;
    // Check all formats: their order must not decide about a folder with two data sets.
    if (found != nullptr) {
      throw ConfigError(fmt::format("'{}' has both {} and {}", folder.string(), found->what, format.what),
                        "Give each data set a folder of its own.");
    }
    found = &format;
  }
  if (found != nullptr) return *found;
  throw ConfigError(fmt::format("'{}' holds no data set that can be read", folder.string()),
                    "MNIST's IDX files (train-images-idx3-ubyte, ...), CIFAR-10's binary files "
                    "(data_batch_1.bin, ...), or a folder of JPEG and PNG images per class.");
}

}  // namespace

std::shared_ptr<const Dataset> open_dataset(const fs::path& folder, Split split) {
  if (!fs::is_directory(folder)) throw ConfigError(fmt::format("there is no folder '{}'", folder.string()));
  return recognise(folder).open(folder, split);
}

}  // namespace lockstep::data
