#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/data/safetensors.h"
#include "lockstep/data/tensor_folder.h"

#include "fuzz/reader.h"

namespace lockstep::fuzz {
namespace {

/// Checks that a tensor which was accepted lies within its file.
void check(const data::StoredTensor& tensor, uint64_t file_bytes) {
  if (tensor.position > file_bytes || tensor.bytes > file_bytes - tensor.position)
    throw std::logic_error("a tensor beyond its file");
}

}  // namespace

bool reads_tensor_file(std::string_view text) {
  try {
    // The first bytes tell the formats apart, as the names of files do elsewhere.
    if (text.starts_with("\x93")) {
      check(data::parse_npy(text, text.size(), "x.npy"), text.size());
      return true;
    }
    const data::StoredTensors all = data::parse_safetensors(text, text.size(), "x.safetensors").tensors;
    for (const auto& [name, tensor] : all) check(tensor, text.size());
    return !all.empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace lockstep::fuzz
