#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace lockstep::topology {

/// What the control groups of this process allow it, the tightest of each group and its ancestors; version 1,
/// 2 and both together. Empty: no limit.
struct CgroupLimits {
  /// Processor time per time: 1.5 is one and a half hardware threads.
  std::optional<double> cpus;
  std::optional<int64_t> memory_bytes;
  /// What is left below the tightest memory limit; page cache that can be dropped counts as free.
  std::optional<int64_t> memory_free_bytes;
};

/// `root` is where /proc and /sys are found; another folder than "/" for tests. Never throws.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace lockstep::topology
