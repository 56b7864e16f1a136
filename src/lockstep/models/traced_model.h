#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/models/model.h"
#include "lockstep/network_file/network_file.h"

namespace lockstep::models {

/// LibTorch's name of a type.
at::ScalarType scalar_type(network_file::Type type);

/// A network without images and classes, which `file` describes and `create` builds.
ModelInfo described_network(std::shared_ptr<const network_file::NetworkFile> file, int default_batch,
                            std::string source,
                            std::function<std::unique_ptr<Model>(const ModelOptions& options)> create);

/// The seed of the random numbers that such a program draws in one step of one rank.
uint64_t step_seed(const kernels::Context& context);

/// The network of a file (docs/your-network.md). Its model runs the graph for batches of options.batch in
/// options.precision; the step is a WholeStep, and forward() throws Error. Both this and `create` throw
/// ConfigError, naming the file, if it cannot be used or has no such graph.
ModelInfo traced_network(const std::string& path);

}  // namespace lockstep::models
