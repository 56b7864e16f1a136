#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/stored_tensor.h"

namespace lockstep::data {

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
