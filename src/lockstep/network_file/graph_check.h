#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/network_file/network_file.h"

namespace lockstep::network_file {

/// Checks a graph of torch.export as JSON against the file's description: its inputs are the parameters,
/// buffers, inputs, targets and the scale, with their shapes, types and strides; its results the loss, the
/// gradients and the buffers that change; its operations those that compute with tensors. Sets
/// draws_random_numbers and announces_uses. Throws Error that says what is wrong.
void check_graph(const std::string& json, const Graph& graph, NetworkFile& file);

/// Checks the list of a graph's constants: none is pickled, because reading those could execute what the file
/// says, and each lies within its entry, of size_of(name) bytes. Throws Error.
void check_constants(const std::string& json,
                     const std::function<uint64_t(const std::string& name)>& size_of);

}  // namespace lockstep::network_file
