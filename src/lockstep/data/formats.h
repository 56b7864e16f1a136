#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

// The kinds of data sets that open_dataset recognizes, for this part and its fuzzers.

/// Images of one size, in memory.
struct Samples {
  int width = 0;
  int height = 0;
  int channels = 0;
  /// Image after image, channels interleaved.
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;

  size_t image_bytes() const {
    return static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels);
  }
};

/// The properties of one such data set.
struct ArrayKind {
  std::string name;
  /// Number of classes; labels are below it.
  int64_t classes = 0;
  Normalization normalization;
  /// Training shifts images by up to this many pixels and mirrors them; 0: it sees them as they are.
  int padding = 0;
};

std::shared_ptr<const Dataset> make_array_dataset(Samples samples, ArrayKind kind);

/// Parses images in MNIST's format IDX: 0x00000803, count, rows, columns (32 bits each, the highest byte
/// first), then 8 bits a pixel. Leaves labels empty. Throws Error that names `name`.
Samples parse_idx_images(std::string_view bytes, const std::string& name);

/// Parses labels: 0x00000801, count, then 8 bits each.
std::vector<uint8_t> parse_idx_labels(std::string_view bytes, const std::string& name);

/// Whether `folder` has MNIST's files, complete or not.
bool has_idx_files(const std::filesystem::path& folder);
std::shared_ptr<const Dataset> open_idx(const std::filesystem::path& folder, Split split);

/// Appends a file of CIFAR-10's binary version to `samples`: records of one label (0 to 9) and 32 x 32
/// pixels, all red values first, then green, then blue. Throws Error that names `name`.
void parse_cifar10(std::string_view bytes, const std::string& name, Samples& samples);

/// Whether `folder` has such files, complete or not, or the folder that the archive unpacks to.
bool has_cifar10_files(const std::filesystem::path& folder);
std::shared_ptr<const Dataset> open_cifar10(const std::filesystem::path& folder, Split split);

/// Whether `folder`, or its folder `train`, has folders with images in them.
bool has_class_folders(const std::filesystem::path& folder);

/// Images below a folder per class; classes are numbered in the order of their names among the training
/// images. Files that end in .jpg, .jpeg or .png count, in upper or lower case; the first bytes tell the
/// format.
std::shared_ptr<const Dataset> open_image_folder(const std::filesystem::path& folder, Split split);

}  // namespace lockstep::data
