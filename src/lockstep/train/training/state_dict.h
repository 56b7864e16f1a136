#pragma once

#include <string>
#include <vector>

#include "lockstep/replica/parameters.h"

namespace lockstep::train {

/// Reads the parameters and buffers in a .safetensors file: a state_dict, or a checkpoint of lockstep.
/// Removes the "module." that DistributedDataParallel puts before every name. Throws ConfigError.
std::vector<replica::NamedTensor> read_state_dict(const std::string& path);

/// Copies values by name. Throws ConfigError, which names `path`, unless names, shapes and kinds of number
/// are the network's; only num_batches_tracked, which old files lack, may be missing.
void load_values(const std::vector<replica::NamedTensor>& values, replica::Parameters& parameters,
                 const std::string& path);

}  // namespace lockstep::train
