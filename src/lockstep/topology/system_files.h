#pragma once

#include <filesystem>

#include "lockstep/topology/machine.h"

namespace lockstep::topology {

/// Fills what the files of /proc, /sys and /etc tell: os, kernel, processor, memory, swap, load, governor,
/// frequency, virtual_machine, transparent_hugepages, gpus. `root` as in read_cgroup_limits. Never throws.
void read_system_files(Machine& machine, const std::filesystem::path& root = "/");

}  // namespace lockstep::topology
