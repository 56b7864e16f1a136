#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/notices.h"
#include "lockstep/results/tables/system_text.h"
#include "lockstep/results/tables/text.h"

namespace lockstep::results {
namespace {

using topology::DeviceMap;

std::string item(std::string_view name, const std::string& value) {
  return wrapped(fmt::format("* {}: ", name), value, 4);
}

/// Left out when there is nothing to say.
std::string item_if(std::string_view name, const std::string& value) {
  return value.empty() ? "" : item(name, value);
}

std::string plural(int count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string cores_text(const Machine& machine) {
  std::string text = machine.processor.empty() ? "unknown processor" : machine.processor;
  if (machine.packages > 1) text += fmt::format(", {}", plural(machine.packages, "package"));
  if (machine.numa_nodes > 1) text += fmt::format(", {}", plural(machine.numa_nodes, "NUMA node"));
  text += machine.cores == machine.host_cores
              ? fmt::format(", {}", plural(machine.cores, "core"))
              : fmt::format(", {} of {} cores usable", machine.cores, machine.host_cores);
  if (machine.host_hardware_threads != machine.host_cores) {
    text += fmt::format(" with {}", plural(machine.host_hardware_threads, "hardware thread"));
  }
  if (!machine.governor.empty()) text += fmt::format(", governor {}", machine.governor);
  if (machine.max_frequency_mhz) text += fmt::format(", up to {:.2f} GHz", *machine.max_frequency_mhz / 1000);
  return text;
}

std::string memory_text(const Machine& machine) {
  std::string text = format_bytes(machine.memory_bytes);
  if (machine.memory_bytes != machine.host_memory_bytes) {
    text += fmt::format(" usable of {}", format_bytes(machine.host_memory_bytes));
  }
  text += fmt::format(", {} of it available", format_bytes(machine.available_memory_bytes));
  if (!machine.transparent_hugepages.empty())
    text += fmt::format(", huge pages: {}", machine.transparent_hugepages);
  return text;
}

/// The paths between the devices of a host with GPUs; those of the host before, if they are the same, by its
/// name only.
std::string topology_text(const Machine& machine, const Machine* before) {
  const DeviceMap& map = machine.map;
  if (map.gpus() == 0) return "";
  std::string text;
  if (!map.driver_version.empty()) text += item("GPU driver", map.driver_version);
  if (map.devices.size() < 2) return text;
  const std::string matrix = path_matrix(map);
  if (before != nullptr && path_matrix(before->map) == matrix)
    return text + item("Topology", "as of " + before->host);
  text += item("Topology", "in the words of nvidia-smi topo -m, which lockstep topo explains");
  for (size_t at = 0; at < matrix.size();) {
    const size_t end = matrix.find('\n', at) + 1;
    text += "    " + matrix.substr(at, end - at);
    at = end;
  }
  return text;
}

std::string machine_text(const Machine& machine, const Machine* before) {
  std::string system = machine.os;
  if (!machine.kernel.empty())
    system += fmt::format("{}Linux {}", system.empty() ? "" : ", ", machine.kernel);
  if (machine.virtual_machine) system += ", virtual machine";
  std::string text = item("Host", fmt::format("{} ({})", machine.host, system));
  text += item("Processor", cores_text(machine));
  for (const std::string& gpu : machine.gpus) text += item("GPU", gpu);
  text += topology_text(machine, before);
  text += item("Memory", memory_text(machine));
  if (machine.load_average) text += item("Load before the run", fmt::format("{:.2f}", *machine.load_average));
  return text;
}

/// "up to 2 ranks, 1 thread each, as processes, pinned (core) to processors 0|1".
std::string ranks_text(const RunRecord& record) {
  int ranks = record.ranks;
  int threads = record.threads_per_rank;
  for (const Run& run : record.runs) {
    if (record.ranks == 0) ranks = std::max(ranks, run.ranks);
    if (record.threads_per_rank == 0) threads = std::max(threads, run.threads_per_rank);
  }
  if (ranks == 0) ranks = static_cast<int>(record.rank_cpus.size());
  if (ranks == 0) return "";
  std::string text = fmt::format("up to {}", plural(ranks, "rank"));
  if (threads > 0) text += fmt::format(", {} each", plural(threads, "thread"));
  if (record.launch == "processes" || record.launch == "threads") {
    text += fmt::format(", as {}", record.launch);
  } else if (!record.launch.empty()) {
    text += fmt::format(", started by {}", record.launch);
  }
  const bool pinned =
      std::ranges::any_of(record.rank_cpus, [](const std::string& cpus) { return !cpus.empty(); });
  if (!pinned) return text + ", not pinned";
  text += fmt::format(", pinned ({}) to processors ", record.binding);
  constexpr size_t kShown = 16;
  for (size_t rank = 0; rank < std::min(kShown, record.rank_cpus.size()); ++rank) {
    text += fmt::format("{}{}", rank == 0 ? "" : "|",
                        record.rank_cpus[rank].empty() ? "any" : record.rank_cpus[rank]);
  }
  if (record.rank_cpus.size() > kShown) text += "|...";
  return text;
}

std::string backend_text(const RunRecord& record) {
  if (record.backend_detail.empty()) return record.distributed_backend;
  return fmt::format("{} ({})", record.distributed_backend, record.backend_detail);
}

}  // namespace

std::string kernels_text(const RunRecord& record) {
  std::vector<std::string> all = record.kernels;
  for (std::string& kernels : all) {
    if (kernels == "fused" && !record.kernel_detail.empty())
      kernels += fmt::format(" ({})", record.kernel_detail);
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string header_text(const RunRecord& record) {
  const bool ours = record.source == "lockstep";
  const std::string name =
      ours ? fmt::format("lockstep {}: data-parallel training, measured", record.lockstep_version)
           : "Results of PyTorch's DDP benchmark";
  const std::string line(name.size(), '-');
  std::string text = fmt::format("{}\n{}\n{}\n\n", line, name, line);
  text += item("PyTorch version", record.torch_version);
  text += item("CUDA version", record.cuda_version.empty() ? "None" : record.cuda_version);
  text += item_if("cuDNN version", record.cudnn_version);
  text += item("Distributed backend", backend_text(record));
  text += item("Maximum bucket size", fmt::format("{}MB", record.bucket_size_mb));
  const Machine* before = nullptr;
  for (const Machine& machine : record.machines) {
    text += machine_text(machine, before);
    before = &machine;
  }
  text += item_if("Ranks", ranks_text(record));
  text += item_if("GPUs of the ranks", rank_gpus_text(record.rank_gpus));
  text += item_if("Kernels", kernels_text(record));
  text += item_if("Memory allocation", record.allocator);
  text += item_if("Command", fmt::format("{}", fmt::join(record.command, " ")));
  text += item_if("Started", record.started_at);
  text += item_if("INCOMPLETE", record.incomplete);
  if (!record.warnings.empty()) text += '\n';
  for (const Warning& warning : record.warnings) text += warning_text(warning);
  return text;
}

}  // namespace lockstep::results
