#pragma once

#include <string>

#include "lockstep/results/tables/text_table.h"
#include "lockstep/topology/system.h"

namespace lockstep::results {

/// A whole system: packages, caches, NUMA nodes, devices, and where there are GPUs the paths between devices
/// with what their names mean. Ends with a newline.
std::string system_text(const topology::System& system, TextForm form = TextForm::kTerminal);

/// Paths in the layout of `nvidia-smi topo -m`: a row and a column per device, beside the rows of GPUs the
/// hardware threads and the NUMA node near them, where they are known.
std::string path_matrix(const topology::DeviceMap& map);

}  // namespace lockstep::results
