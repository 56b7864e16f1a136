#include "lockstep/topology/system_files.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

namespace lockstep::topology {
namespace fs = std::filesystem;
namespace {

std::string os_name(const fs::path& root) {
  for (const char* path : {"etc/os-release", "usr/lib/os-release"}) {
    const std::string text = read_text(root / path).value_or("");
    if (const auto name = value_of(text, "PRETTY_NAME", '=')) {
      const auto unquoted = split(*name, "\"'");
      if (!unquoted.empty()) return std::string(unquoted.front());
    }
  }
  return "";
}

void read_cpuinfo(Machine& machine, const fs::path& root) {
  const std::string text = read_text(root / "proc/cpuinfo").value_or("");
  if (const auto model = value_of(text, "model name", ':')) machine.processor = *model;
  const auto flags = split(value_of(text, "flags", ':').value_or(""), " ");
  machine.virtual_machine = std::ranges::find(flags, "hypervisor") != flags.end();
  if (const auto type = read_text(root / "sys/hypervisor/type"))
    machine.virtual_machine |= !trimmed(*type).empty();
}

int64_t bytes_of(std::string_view meminfo, std::string_view key) {
  const auto value = value_of(meminfo, key, ':');
  return value ? leading_number<int64_t>(*value).value_or(0) * 1024 : 0;
}

void read_meminfo(Machine& machine, const fs::path& root) {
  const std::string text = read_text(root / "proc/meminfo").value_or("");
  machine.host_memory_bytes = bytes_of(text, "MemTotal");
  machine.memory_bytes = machine.host_memory_bytes;
  machine.available_memory_bytes = bytes_of(text, "MemAvailable");
  machine.swap_used_bytes = swap_used_bytes(text);
}

std::string chosen_hugepages(const fs::path& root) {
  const std::string text = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled").value_or("");
  const size_t open = text.find('[');
  const size_t close = text.find(']', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return "";
  return text.substr(open + 1, close - open - 1);
}

std::vector<std::string> nvidia_gpus(const fs::path& root) {
  // Sorted by PCI address, which is the driver's own order; a folder lists its entries in any order.
  std::map<std::string, std::string> by_address;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", ignored)) {
    const std::string text = read_text(entry.path() / "information").value_or("");
    by_address[entry.path().filename()] = value_of(text, "Model", ':').value_or("NVIDIA GPU");
  }
  std::vector<std::string> names;
  for (const auto& [address, name] : by_address) names.push_back(name);
  // A container may have the devices but not that part of /proc.
  while (by_address.empty() && fs::exists(root / fmt::format("dev/nvidia{}", names.size()), ignored)) {
    names.push_back("NVIDIA GPU");
  }
  return names;
}

/// Version 1 writes a number a little above this, depending on the page size, for "no limit".
constexpr int64_t kUnlimitedBytes = int64_t{1} << 60;

template <typename Number>
void tighten(std::optional<Number>& limit, std::optional<Number> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

/// A mounted hierarchy of groups.
struct Mount {
  bool version_2 = false;
  /// The group that mount_point shows.
  std::string root;
  fs::path mount_point;
  std::vector<std::string> options;

  bool has(std::string_view controller) const {
    return version_2 || std::ranges::find(options, controller) != options.end();
  }
};

/// /proc/self/mountinfo writes a space in a path as \040.
std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::vector<Mount> cgroup_mounts(const fs::path& root) {
  std::vector<Mount> mounts;
  const std::string text = read_text(root / "proc/self/mountinfo").value_or("");
  for (const std::string_view line : split(text, "\n")) {
    // ID PARENT DEVICE ROOT MOUNT_POINT OPTIONS [FIELDS] - TYPE SOURCE SUPER_OPTIONS, see proc(5).
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto before = split(line.substr(0, dash), " ");
    const auto after = split(line.substr(dash + 3), " ");
    if (before.size() < 5 || after.size() < 3 || !after[0].starts_with("cgroup")) continue;
    Mount mount;
    mount.version_2 = after[0] == "cgroup2";
    mount.root = unescaped(before[3]);
    mount.mount_point = root / fs::path(unescaped(before[4])).relative_path();
    for (const std::string_view option : split(after[2], ",")) mount.options.emplace_back(option);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

/// The path of this process's group in the hierarchy of a controller ("" : version 2).
std::optional<std::string> group_path(const fs::path& root, std::string_view controller) {
  const std::string text = read_text(root / "proc/self/cgroup").value_or("");
  for (const std::string_view line : split(text, "\n")) {
    // HIERARCHY:CONTROLLERS:PATH, without controllers for version 2, see cgroups(7).
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const auto names = split(controllers, ",");
    const bool here =
        controller.empty() ? controllers.empty() : std::ranges::find(names, controller) != names.end();
    if (here) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

/// Folders of this process's group and of its ancestors, as far up as they are visible.
std::vector<fs::path> group_folders(const Mount& mount, const std::string& group) {
  // A container without a cgroup namespace of its own sees the host's path in /proc/self/cgroup, but has only
  // its own group mounted: cut off the part above the mounted group.
  std::string below = group;
  if (mount.root != "/" && below.starts_with(mount.root)) below.erase(0, mount.root.size());
  std::vector<fs::path> folders{mount.mount_point};
  for (const fs::path& part : fs::path(below).relative_path()) {
    if (part == "..") break;
    folders.push_back(folders.back() / part);
  }
  return folders;
}

std::optional<int64_t> byte_limit(const fs::path& path) {
  const auto limit = read_number<int64_t>(path);
  return limit && *limit >= 0 && *limit < kUnlimitedBytes ? limit : std::nullopt;
}

std::optional<double> cpu_limit(const fs::path& folder, bool version_2) {
  std::optional<double> quota, period;
  // "QUOTA PERIOD" or "max PERIOD" in version 2, two files in version 1, where -1 is no limit; microseconds.
  if (version_2) {
    const std::string text = read_text(folder / "cpu.max").value_or("");
    const auto fields = split(text, " \n");
    if (fields.size() < 2) return std::nullopt;
    quota = leading_number<double>(fields[0]);
    period = leading_number<double>(fields[1]);
  } else {
    quota = read_number<double>(folder / "cpu.cfs_quota_us");
    period = read_number<double>(folder / "cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

/// Tightens the limits by those of one group. Version 2 has a soft limit, too, that throttles before the
/// hard one.
void apply_memory(CgroupLimits& limits, const fs::path& folder, bool version_2) {
  std::optional<int64_t> limit = byte_limit(folder / (version_2 ? "memory.max" : "memory.limit_in_bytes"));
  if (version_2) tighten(limit, byte_limit(folder / "memory.high"));
  if (!limit) return;
  tighten(limits.memory_bytes, limit);
  const auto used = read_number<int64_t>(folder / (version_2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!used) return;
  const std::string stat = read_text(folder / "memory.stat").value_or("");
  const auto cache = value_of(stat, version_2 ? "inactive_file" : "total_inactive_file", ' ');
  const int64_t droppable = cache ? leading_number<int64_t>(*cache).value_or(0) : 0;
  tighten(limits.memory_free_bytes,
          std::optional(std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - droppable))));
}

}  // namespace

std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  // An empty file sets failbit on `text`, a folder sets badbit on `stream`.
  if (!stream || !(text << stream.rdbuf())) return std::nullopt;
  return std::move(text).str();
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t first = text.find_first_not_of(separators);
    if (first == std::string_view::npos) return parts;
    // Skips separators, then takes all up to the next one.
    text.remove_prefix(first);
    const size_t end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end);
  }
}

std::optional<std::string_view> value_of(std::string_view text, std::string_view key, char separator) {
  for (std::string_view line : split(text, "\n")) {
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    // "Mem" must not match "MemTotal": only spaces may stand before the separator.
    const size_t at = line.find(separator);
    if (at == std::string_view::npos || !trimmed(line.substr(0, at)).empty()) continue;
    return trimmed(line.substr(at + 1));
  }
  return std::nullopt;
}

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  for (const Mount& mount : cgroup_mounts(root)) {
    for (const std::string_view controller : {"cpu", "memory"}) {
      if (!mount.has(controller)) continue;
      const auto group = group_path(root, mount.version_2 ? "" : controller);
      for (const fs::path& folder : group_folders(mount, group.value_or("/"))) {
        if (controller == "cpu") {
          tighten(limits.cpus, cpu_limit(folder, mount.version_2));
        } else {
          apply_memory(limits, folder, mount.version_2);
        }
      }
    }
  }
  return limits;
}

int64_t swap_used_bytes(std::string_view meminfo) {
  return std::max<int64_t>(0, bytes_of(meminfo, "SwapTotal") - bytes_of(meminfo, "SwapFree"));
}

void read_system_files(Machine& machine, const fs::path& root) {
  machine.os = os_name(root);
  machine.kernel = trimmed(read_text(root / "proc/sys/kernel/osrelease").value_or(""));
  read_cpuinfo(machine, root);
  read_meminfo(machine, root);
  machine.load_average = read_number<double>(root / "proc/loadavg");
  const fs::path frequency = root / "sys/devices/system/cpu/cpu0/cpufreq";
  machine.governor = trimmed(read_text(frequency / "scaling_governor").value_or(""));
  if (const auto khz = read_number<double>(frequency / "cpuinfo_max_freq"))
    machine.max_frequency_mhz = *khz / 1000;
  machine.transparent_hugepages = chosen_hugepages(root);
  machine.gpus = nvidia_gpus(root);
}

}  // namespace lockstep::topology
