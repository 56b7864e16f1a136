#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/array_dataset.h"

namespace lockstep::data {

/// A file of images in MNIST's format IDX: 0x00000803, how many, rows, columns (32 bits each, the highest
/// byte first), then 8 bits a pixel. Labels are left empty. Throws Error that names `name`.
Samples parse_idx_images(std::string_view bytes, const std::string& name);

/// A file of labels: 0x00000801, how many, then 8 bits each.
std::vector<uint8_t> parse_idx_labels(std::string_view bytes, const std::string& name);

/// Whether `folder` has MNIST's files, complete or not.
bool has_idx_files(const std::filesystem::path& folder);
std::shared_ptr<const Dataset> open_idx(const std::filesystem::path& folder, Split split);

}  // namespace lockstep::data
