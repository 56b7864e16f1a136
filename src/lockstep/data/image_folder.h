#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Whether `folder` has folders with images in them, or `train` with such.
bool has_class_folders(const std::filesystem::path& folder);

/// Images below a folder per class; classes are numbered in the order of their names, as the training images
/// have them. Files that end in .jpg, .jpeg or .png count, in any case; which of these a file is, its first
/// bytes say.
std::shared_ptr<const Dataset> open_image_folder(const std::filesystem::path& folder, Split split);

}  // namespace lockstep::data
