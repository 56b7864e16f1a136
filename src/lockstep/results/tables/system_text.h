#pragma once

#include <string>

#include "lockstep/results/tables/document.h"
#include "lockstep/topology/system.h"

namespace lockstep::results {

/// Packages, caches, NUMA nodes and devices of a system, and where there are GPUs the paths between devices
/// with what their names mean.
Document system_tables(const topology::System& system);

/// Paths in the layout of `nvidia-smi topo -m`: a row and a column per device, beside the rows of GPUs the
/// hardware threads and the NUMA node near them, where they are known.
std::string path_matrix(const topology::DeviceMap& map);

}  // namespace lockstep::results
