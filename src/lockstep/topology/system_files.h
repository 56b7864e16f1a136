#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "lockstep/topology/machine.h"

namespace lockstep::topology {

/// Limits of the control groups of this process: the tightest among each group and its ancestors, for version
/// 1, 2 and both together. Empty: no limit.
struct CgroupLimits {
  /// Processor time per wall-clock time: 1.5 is one and a half hardware threads.
  std::optional<double> cpus;
  std::optional<int64_t> memory_bytes;
  /// Memory left below the tightest limit; page cache that can be dropped counts as free.
  std::optional<int64_t> memory_free_bytes;
};

/// `root` is the folder that holds /proc and /sys; tests pass another than "/". Never throws.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

/// Fills the facts that files of /proc, /sys and /etc tell: os, kernel, processor, memory, swap, load,
/// governor, frequency, virtual_machine, transparent_hugepages, gpus. `root` as in read_cgroup_limits. Never
/// throws.
void read_system_files(Machine& machine, const std::filesystem::path& root = "/");

/// Swap in use, from the text of /proc/meminfo; 0 if it does not say.
int64_t swap_used_bytes(std::string_view meminfo);

}  // namespace lockstep::topology
