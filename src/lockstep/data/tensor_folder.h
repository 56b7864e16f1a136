#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// A tensor in a file: its samples one after the other, little-endian, the last dimension running fastest.
struct StoredTensor {
  std::filesystem::path file;
  /// As NumPy and PyTorch name it: "float32", "int64".
  std::string type;
  /// The first dimension counts samples.
  std::vector<int64_t> shape;
  /// Place of its first byte in the file.
  uint64_t position = 0;
  uint64_t bytes_per_sample = 0;

  int64_t samples() const { return shape.front(); }
};

using StoredTensors = std::map<std::string, StoredTensor>;

/// Whether the folder has files of tensors.
bool has_tensor_files(const std::filesystem::path& folder);

/// The tensors in a folder by name: one in each file NAME.npy (NumPy's format, versions 1 to 3), and all in
/// each file *.safetensors. Reads headers only. Throws ConfigError where there is no such folder or none has
/// tensors, or two have one name, and Error that names a damaged file.
StoredTensors find_tensors(const std::filesystem::path& folder);

/// Parses the beginning of a file NAME.npy of `file_bytes` bytes in all. Throws Error that names `name`.
StoredTensor parse_npy(std::string_view begin, uint64_t file_bytes, const std::string& name);

/// Parses the beginning of a .safetensors file of `file_bytes` bytes in all. Throws Error that names `name`.
StoredTensors parse_safetensors(std::string_view begin, uint64_t file_bytes, const std::string& name);

/// Reads samples of one tensor. All methods may be called from any thread.
class SampleFile {
 public:
  /// Throws Error that names the file.
  explicit SampleFile(StoredTensor tensor);
  ~SampleFile();
  SampleFile(const SampleFile&) = delete;
  SampleFile& operator=(const SampleFile&) = delete;

  const StoredTensor& tensor() const { return tensor_; }
  /// `into` has StoredTensor::bytes_per_sample bytes. Throws Error that names the file.
  void read(int64_t sample, std::span<char> into) const;

 private:
  StoredTensor tensor_;
  int file_ = -1;
};

}  // namespace lockstep::data
