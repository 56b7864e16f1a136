#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lockstep/data/safetensors.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::train {

/// Prefix of the network's values in a checkpoint.
inline constexpr const char* kModel = "model/";

/// A .safetensors file that was opened and found whole.
class TensorFile {
 public:
  /// Throws ConfigError for a file that is missing, damaged (of checkpoints and converted files every bit is
  /// checked) or of another format.
  explicit TensorFile(const std::string& path);

  const std::string& path() const { return path_; }
  /// The tensors whose names begin with `prefix`, without it.
  std::vector<replica::NamedTensor> tensors(const std::string& prefix = "") const;
  bool has(const std::string& prefix) const;
  /// The text under a key; empty without it.
  std::string metadata(const std::string& key) const;

 private:
  std::string path_;
  data::PositionedFile file_;
  data::Safetensors found_;
};

/// "float32", as PyTorch names it.
std::string type_name(const at::Tensor& tensor);
at::ScalarType type_named(const std::string& name);

/// Values of a contiguous tensor in host memory.
std::string_view values_of(const at::Tensor& tensor);

/// Writes such a file, whole or not at all. Throws Error.
void write_tensors(const std::filesystem::path& path, const std::vector<replica::NamedTensor>& tensors,
                   const std::map<std::string, std::string>& metadata = {});

/// Reads the parameters and buffers in such a file: a state_dict, or a checkpoint of lockstep.
/// Removes the "module." that DistributedDataParallel puts before every name. Throws ConfigError.
std::vector<replica::NamedTensor> read_state_dict(const std::string& path);

/// Copies values by name. Throws ConfigError, which names `path`, unless names, shapes and kinds of number
/// are the network's; only num_batches_tracked, which old files lack, may be missing.
void load_values(const std::vector<replica::NamedTensor>& values, replica::Parameters& parameters,
                 const std::string& path);

}  // namespace lockstep::train
