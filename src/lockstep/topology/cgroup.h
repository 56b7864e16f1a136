#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

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

}  // namespace lockstep::topology
