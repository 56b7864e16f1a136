#pragma once

#include <string>
#include <vector>

#include "lockstep/replica/parameters.h"

namespace lockstep::train {

/// Parameters and buffers of a file of torch.save: a state_dict, or a dictionary that has one under `model`,
/// as checkpoints of lockstep and of torchvision's training have. A "module." before every name, which
/// DistributedDataParallel puts there, is left out. Throws ConfigError.
std::vector<replica::NamedTensor> read_state_dict(const std::string& path);

/// Copies values by name. Throws ConfigError unless names, shapes and kinds of number are the network's; only
/// num_batches_tracked, which old files do not have, may be missing. `path`: in messages.
void load_values(const std::vector<replica::NamedTensor>& values, replica::Parameters& parameters,
                 const std::string& path);

/// Copies of parameters and buffers by name, in the plain layout.
std::vector<replica::NamedTensor> state_dict_of(const replica::Parameters& parameters);

}  // namespace lockstep::train
