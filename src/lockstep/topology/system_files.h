#pragma once

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/plain_text.h"
#include "lockstep/topology/system.h"

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

/// Fills the facts from files of /proc, /sys and /etc: os, kernel, processor, memory, swap, load,
/// governor, frequency, virtual_machine, transparent_hugepages, gpus. `root` as in read_cgroup_limits. Never
/// throws.
void read_system_files(Machine& machine, const std::filesystem::path& root = "/");

/// Swap in use, from the text of /proc/meminfo; 0 if unknown.
int64_t swap_used_bytes(std::string_view meminfo);

/// The contents of a small system file; empty if it cannot be read. Never throws.
std::optional<std::string> read_text(const std::filesystem::path& path);

/// Parts between any of `separators`, empty parts left out.
std::vector<std::string_view> split(std::string_view text, std::string_view separators);

/// The number at the beginning of the text, after white space.
template <typename Number>
std::optional<Number> leading_number(std::string_view text) {
  text = trimmed(text);
  Number value{};
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

/// The number at the beginning of a file.
template <typename Number>
std::optional<Number> read_number(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_text(path);
  return text ? leading_number<Number>(*text) : std::nullopt;
}

/// The value after `key` and `separator` on the first line of `text` that begins with the key: "KEY = value"
/// in /proc/meminfo, /proc/cpuinfo, os-release, memory.stat.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key, char separator);

}  // namespace lockstep::topology
