#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/data/array_dataset.h"

namespace lockstep::data {

/// Appends a file of CIFAR-10's binary version to `samples`: records of one label (0 to 9) and 32 x 32
/// pixels, all red values first, then green, then blue. Throws Error that names `name`.
void parse_cifar10(std::string_view bytes, const std::string& name, Samples& samples);

/// Whether `folder` has such files, complete or not, or holds the folder of the archive that has.
bool has_cifar10_files(const std::filesystem::path& folder);
std::shared_ptr<const Dataset> open_cifar10(const std::filesystem::path& folder, Split split);

}  // namespace lockstep::data
