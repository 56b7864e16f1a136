#pragma once

#include <string>

#include "lockstep/models/model.h"

namespace lockstep::models {

/// Whether a model's name is that of a network in a shared object, "./libmine.so:mine"
/// (models/network_plugin.h).
bool is_plugin_network(const std::string& name);

/// Opens the shared object, builds the network once, and runs one forward pass of two samples to see whether
/// its loss is one number and whether it draws random numbers. The code runs in this process: it is trusted
/// as a program is. Throws ConfigError that names the network.
ModelInfo plugin_network(const std::string& name);

}  // namespace lockstep::models
