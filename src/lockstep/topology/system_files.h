#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "lockstep/topology/machine.h"

namespace lockstep::topology {

/// Fills the facts that files of /proc, /sys and /etc tell: os, kernel, processor, memory, swap, load,
/// governor, frequency, virtual_machine, transparent_hugepages, gpus. `root` as in read_cgroup_limits. Never
/// throws.
void read_system_files(Machine& machine, const std::filesystem::path& root = "/");

/// Swap in use, from the text of /proc/meminfo; 0 if it does not say.
int64_t swap_used_bytes(std::string_view meminfo);

}  // namespace lockstep::topology
