#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/data/safetensors.h"

namespace lockstep::data {

/// Whether the folder has files of tensors.
bool has_tensor_files(const std::filesystem::path& folder);

/// The tensors of these names in a folder: one in each file NAME.npy (NumPy's format, versions 1 to 3), and
/// all in each file *.safetensors, of which the first dimension counts samples. Reads headers only. Throws
/// ConfigError where there is no such folder or none has tensors, one is missing, or two have one name, and
/// Error that names a damaged file.
StoredTensors find_tensors(const std::filesystem::path& folder, const std::vector<std::string>& names);

/// Parses the beginning of a file NAME.npy of `file_bytes` bytes in all. Throws Error that names `name`.
StoredTensor parse_npy(std::string_view begin, uint64_t file_bytes, const std::string& name);

/// Reads samples of one tensor. All methods may be called from any thread.
class SampleFile {
 public:
  /// Throws Error that names the file.
  explicit SampleFile(StoredTensor tensor) : tensor_(std::move(tensor)), file_(tensor_.file) {}

  const StoredTensor& tensor() const { return tensor_; }
  /// `into` has StoredTensor::bytes_per_sample() bytes. Throws Error that names the file.
  void read(int64_t sample, std::span<char> into) const {
    file_.read(tensor_.position + static_cast<uint64_t>(sample) * tensor_.bytes_per_sample(), into);
  }

 private:
  StoredTensor tensor_;
  PositionedFile file_;
};

}  // namespace lockstep::data
