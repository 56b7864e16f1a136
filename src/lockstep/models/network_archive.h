#pragma once

#include <span>
#include <string>

#include "lockstep/network_file/network_file.h"

namespace lockstep::models {

/// Reads and checks the description of a network's file and its graphs (network_file::read_description), and
/// compares the checksum of every entry except for the values. Throws ConfigError that names the file.
network_file::NetworkFile read_network_file(const std::string& path);

/// Reads the bytes of each tensor to the place of the same index, which has room for Tensor::bytes, and
/// compares the checksum of the values. Throws ConfigError that names the file.
void read_values(const network_file::NetworkFile& file, std::span<const network_file::Tensor> tensors,
                 std::span<char* const> places);

}  // namespace lockstep::models
