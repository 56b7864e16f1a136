#include "lockstep/topology/system_files.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lockstep/topology/text_file.h"

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

}  // namespace

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
