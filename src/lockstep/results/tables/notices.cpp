#include "lockstep/results/tables/notices.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

using topology::DeviceMap;

/// "AMD EPYC 9354, 2 packages, 8 of 64 cores usable with 128 hardware threads, governor performance".
std::string cores_text(const Machine& machine) {
  std::string text = machine.processor.empty() ? "unknown processor" : machine.processor;
  if (machine.packages > 1) text += fmt::format(", {}", counted(machine.packages, "package"));
  if (machine.numa_nodes > 1) text += fmt::format(", {}", counted(machine.numa_nodes, "NUMA node"));
  text += machine.cores == machine.host_cores
              ? fmt::format(", {}", counted(machine.cores, "core"))
              : fmt::format(", {} of {} cores usable", machine.cores, machine.host_cores);
  if (machine.host_hardware_threads > 0 && machine.host_hardware_threads != machine.host_cores) {
    text += fmt::format(" with {}", counted(machine.host_hardware_threads, "hardware thread"));
  }
  if (!machine.governor.empty()) text += fmt::format(", governor {}", machine.governor);
  if (machine.max_frequency_mhz) text += fmt::format(", up to {:.2f} GHz", *machine.max_frequency_mhz / 1000);
  return text;
}

/// "16.0 GiB usable of 755.0 GiB, 12.1 GiB of it available, huge pages: madvise".
std::string memory_text(const Machine& machine) {
  std::string text = format_bytes(machine.memory_bytes);
  if (machine.memory_bytes != machine.host_memory_bytes) {
    text += fmt::format(" usable of {}", format_bytes(machine.host_memory_bytes));
  }
  if (machine.available_memory_bytes > 0)
    text += fmt::format(", {} of it available", format_bytes(machine.available_memory_bytes));
  if (!machine.transparent_hugepages.empty())
    text += fmt::format(", huge pages: {}", machine.transparent_hugepages);
  return text;
}

/// Adds the GPU driver and the paths between the devices of a host with GPUs; where the host before has the
/// same paths, only its name.
void add_topology(const Machine& machine, const Machine* before, std::vector<Fact>& facts) {
  const DeviceMap& map = machine.map;
  if (map.gpus() == 0) return;
  facts.push_back({"GPU driver", map.driver_version});
  if (map.devices.size() < 2) return;
  const std::string matrix = path_matrix(map);
  if (before != nullptr && path_matrix(before->map) == matrix) {
    facts.push_back({"Topology", "as of " + before->host});
  } else {
    facts.push_back({"Topology", "in the words of nvidia-smi topo -m, which lockstep topo explains", matrix});
  }
}

/// The facts of one host. `before`: the host described before it, null for the first.
void add_machine(const Machine& machine, const Machine* before, std::vector<Fact>& facts) {
  std::string system = machine.os;
  if (!machine.kernel.empty())
    system += fmt::format("{}Linux {}", system.empty() ? "" : ", ", machine.kernel);
  if (machine.virtual_machine) system += ", virtual machine";
  facts.push_back({"Host", fmt::format("{} ({})", machine.host, system)});
  facts.push_back({"Processor", cores_text(machine)});
  for (const std::string& gpu : machine.gpus) facts.push_back({"GPU", gpu});
  add_topology(machine, before, facts);
  facts.push_back({"Memory", memory_text(machine)});
  if (machine.load_average)
    facts.push_back({"Load before the run", fmt::format("{:.2f}", *machine.load_average)});
}

/// "up to 2 ranks, 1 thread each, as processes, pinned (core) to processors 0|1".
std::string ranks_text(const RunRecord& record) {
  // Files of other programs have these numbers in their rows only.
  int ranks = record.ranks;
  int threads = record.threads_per_rank;
  for (const Run& run : record.runs) {
    if (record.ranks == 0) ranks = std::max(ranks, run.ranks);
    if (record.threads_per_rank == 0) threads = std::max(threads, run.threads_per_rank);
  }
  if (ranks == 0) ranks = static_cast<int>(record.rank_cpus.size());
  if (ranks == 0) return "";
  std::string text = fmt::format("up to {}", counted(ranks, "rank"));
  if (threads > 0) text += fmt::format(", {} each", counted(threads, "thread"));
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

/// "gloo (Gloo 0.5.0)".
std::string backend_text(const RunRecord& record) {
  if (record.backend_detail.empty()) return record.distributed_backend;
  return fmt::format("{} ({})", record.distributed_backend, record.backend_detail);
}

/// "1, 5, 25 MiB".
std::string bucket_text(const RunRecord& record) {
  std::vector<double> sizes_mb = record.bucket_sizes_mb;
  if (sizes_mb.empty()) sizes_mb = {record.bucket_size_mb};
  return fmt::format("{} MiB", fmt::join(sizes_mb, ", "));
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

std::vector<Fact> facts_of(const RunRecord& record, size_t most_machines) {
  // Publications lack these facts.
  const auto unless_published = [&](std::string text) { return record.source == kPublished ? "" : text; };
  std::vector<Fact> facts{
      {"PyTorch version", record.torch_version},
      {"CUDA version", record.cuda_version.empty() ? unless_published("None") : record.cuda_version},
      {"cuDNN version", record.cudnn_version},
      {"Distributed backend", backend_text(record)},
      {"Maximum bucket size", unless_published(bucket_text(record))}};
  const size_t described = std::min(most_machines, record.machines.size());
  for (size_t i = 0; i < described; ++i) {
    add_machine(record.machines[i], i == 0 ? nullptr : &record.machines[i - 1], facts);
  }
  if (described < record.machines.size()) {
    facts.push_back({"Other hosts", fmt::format("{} more", record.machines.size() - described)});
  }
  facts.push_back({"Ranks", ranks_text(record)});
  facts.push_back({"GPUs of the ranks", rank_gpus_text(record.rank_gpus)});
  facts.push_back({"Kernels", kernels_text(record)});
  facts.push_back({"Memory allocation", record.allocator});
  facts.push_back({"Command", fmt::format("{}", fmt::join(record.command, " "))});
  facts.push_back({"Started", record.started_at});
  facts.push_back({"INCOMPLETE", record.incomplete});
  // A fact that the record lacks has an empty value.
  std::erase_if(facts, [](const Fact& fact) { return fact.value.empty(); });
  return facts;
}

std::string header_text(const RunRecord& record) {
  const std::string name =
      record.source == "lockstep"
          ? fmt::format("lockstep {}: data-parallel training, measured", record.lockstep_version)
      : record.source == kPublished ? "Published results"
                                    : "Results of PyTorch's DDP benchmark";
  const std::string line(name.size(), '-');
  std::string text = fmt::format("{}\n{}\n{}\n\n", line, name, line);
  for (const Fact& fact : facts_of(record)) {
    text += wrapped(fmt::format("* {}: ", fact.name), fact.value, 4);
    for (size_t at = 0; at < fact.lines.size();) {
      const size_t end = fact.lines.find('\n', at) + 1;
      text += "    " + fact.lines.substr(at, end - at);
      at = end;
    }
  }
  if (!record.warnings.empty()) text += '\n';
  for (const Warning& warning : warnings_of_record(record)) text += warning_text(warning);
  return text;
}

std::string warning_text(const Warning& warning) {
  const std::string_view head = warning.loud ? "WARNING: " : "Warning: ";
  std::string text = wrapped(head, warning.text, head.size());
  if (!warning.advice.empty()) text += wrapped("         -> ", warning.advice, head.size() + 3);
  if (!warning.loud) return text;
  const std::string line(100, '!');
  return fmt::format("{}\n{}{}\n", line, text, line);
}

std::string closing_text(const RunRecord& record) {
  std::string text;
  // The head of the output has it; here the reader ends.
  if (std::ranges::any_of(record.warnings, &Warning::loud)) {
    text += "The WARNING at the top applies to all of these numbers.\n";
  }
  for (const Warning& warning : warnings_of_rows(record)) text += warning_text(warning);
  if (!record.incomplete.empty()) {
    text += wrapped("INCOMPLETE: ", record.incomplete, 12);
    text += "            Only what was measured until then is here.\n";
  }
  return text;
}

}  // namespace lockstep::results
