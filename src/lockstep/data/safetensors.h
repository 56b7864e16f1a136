#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/tcp_socket.h"

namespace lockstep::data {

/// A tensor in a file: its values one after the other, little-endian, the last dimension running fastest.
struct StoredTensor {
  std::filesystem::path file;
  /// As NumPy and PyTorch name it: "float32", "int64".
  std::string type;
  std::vector<int64_t> shape;
  /// Place of its first byte in the file.
  uint64_t position = 0;
  uint64_t bytes = 0;

  /// The first dimension counts samples.
  int64_t samples() const { return shape.front(); }
  uint64_t bytes_per_sample() const { return bytes / static_cast<uint64_t>(samples()); }
};

using StoredTensors = std::map<std::string, StoredTensor>;

/// A type of numbers by its names.
struct ElementType {
  const char* name;
  const char* in_npy;
  const char* in_safetensors;
  uint64_t bytes;
};

/// The type that has this name in `column`. Throws Error that names `file` where there is none.
const ElementType& element_type(const char* ElementType::*column, const std::string& name,
                                const std::string& file);

/// A tensor of file `file` that begins at `position` and should end at or before `end`. Throws Error where it
/// does not.
StoredTensor place_tensor(const ElementType& type, std::vector<int64_t> shape, uint64_t position,
                          uint64_t end, const std::string& file);

/// A little-endian number of `size` bytes at `at` in a header. Throws Error where the header ends before it.
uint64_t little_endian_at(std::string_view header, size_t at, size_t size, const std::string& file);

/// The `size` bytes of a header's text after its prefix, at most `most`. Throws Error where there are fewer.
std::string_view header_text(std::string_view begin, size_t prefix, uint64_t size, size_t most,
                             const std::string& file);

[[noreturn]] void refuse_header(const std::string& file, const char* what);

/// A file that is read by position. All methods may be called from any thread.
class PositionedFile {
 public:
  /// Throws Error that names the file.
  explicit PositionedFile(std::filesystem::path path);

  /// Fills `into`. Throws Error that names the file.
  void read(uint64_t position, std::span<char> into) const;
  uint64_t bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  uint64_t bytes_ = 0;
};

// Files *.safetensors: tensors by name, and texts by key, with nothing to execute in them. Python reads them
// with safetensors.torch.load_file.

/// The header of such a file.
struct Safetensors {
  StoredTensors tensors;
  std::map<std::string, std::string> metadata;
};

/// A tensor to write; `values` as StoredTensor has them.
struct TensorToWrite {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;
  std::string_view values;
};

/// The key of a checksum in the metadata: BLAKE2b of the whole file, with 64 zeros in place of its own 64
/// hexadecimal digits.
inline constexpr const char* kChecksumKey = "lockstep_blake2b";

/// Parses the beginning of a file of `file_bytes` bytes in all. Throws Error that names `name`.
Safetensors parse_safetensors(std::string_view begin, uint64_t file_bytes, const std::string& name);

/// Reads the header of a file. Throws Error that names it.
Safetensors read_safetensors(const PositionedFile& file);

/// Throws Error for a file with a checksum that is not its own. `found`: its header.
void check_checksum(const PositionedFile& file, const Safetensors& found);

/// Writes a file with a checksum; at any moment `path` is the old file or the whole new one. The same content
/// gives the same bytes. Throws Error.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace lockstep::data
