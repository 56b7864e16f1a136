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

/// Seeds the generator of the process for a device, from which such programs draw, for one step of one rank.
/// Ranks that are threads share the CPU's.
void seed_step(const kernels::Context& context, at::Device device);

/// The network of a file (docs/your-network.md). Its model runs the graph for batches of options.batch in
/// options.precision; the step is a WholeStep, and forward() throws Error. Both this and `create` throw
/// ConfigError, naming the file, if it cannot be used or has no such graph.
ModelInfo traced_network(const std::string& path);

}  // namespace lockstep::models
