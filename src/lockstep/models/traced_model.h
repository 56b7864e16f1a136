#pragma once

#include <memory>

#include "lockstep/models/model.h"
#include "lockstep/network_file/network_file.h"

namespace lockstep::models {

/// LibTorch's name of a type.
at::ScalarType scalar_type(network_file::Type type);

/// The network of a file (docs/your-network.md), with the graph for batches of options.batch in
/// options.precision. Its step is a WholeStep; forward() throws Error. Throws ConfigError, naming the file,
/// if it has no such graph or cannot be used.
std::unique_ptr<Model> create_traced_model(std::shared_ptr<const network_file::NetworkFile> file,
                                           const ModelOptions& options);

}  // namespace lockstep::models
