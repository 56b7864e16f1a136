#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/markup.h"
#include "lockstep/plots/numbers.h"
#include "lockstep/plots/page_tables.h"
#include "lockstep/results/tables/notices.h"

namespace lockstep::plots {
namespace {

constexpr size_t kMostMachines = 4;
constexpr size_t kMostCharacters = 2000;

std::string item(std::string_view name, const std::string& value) {
  if (value.empty()) return "";
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(clip(value, kMostCharacters)));
}

std::string versions_of(const results::RunRecord& record) {
  std::vector<std::string> parts;
  if (!record.lockstep_version.empty()) parts.push_back("lockstep " + record.lockstep_version);
  if (!record.torch_version.empty()) parts.push_back("PyTorch " + record.torch_version);
  if (!record.cuda_version.empty()) parts.push_back("CUDA " + record.cuda_version);
  if (!record.cudnn_version.empty()) parts.push_back("cuDNN " + record.cudnn_version);
  if (!record.backend_detail.empty()) parts.push_back(record.backend_detail);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string machine_text(const results::Machine& machine) {
  std::vector<std::string> parts;
  if (!machine.processor.empty()) parts.push_back(machine.processor);
  if (machine.cores > 0) {
    parts.push_back(machine.cores == machine.host_cores || machine.host_cores == 0
                        ? counted(machine.cores, "core")
                        : fmt::format("{} of {}", machine.cores, counted(machine.host_cores, "core")));
  }
  if (machine.memory_bytes > 0) parts.push_back(format_bytes(machine.memory_bytes) + " of memory");
  for (size_t i = 0; i < std::min<size_t>(machine.gpus.size(), 8); ++i) parts.push_back(machine.gpus[i]);
  if (machine.virtual_machine) parts.push_back("virtual machine");
  if (!machine.os.empty()) parts.push_back(machine.os);
  return fmt::format("{}: {}", machine.host.empty() ? "host" : machine.host, fmt::join(parts, ", "));
}

std::string ranks_text(const results::RunRecord& record) {
  std::vector<std::string> parts;
  if (record.ranks > 0) parts.push_back("up to " + counted(record.ranks, "rank"));
  if (record.threads_per_rank > 0) parts.push_back(counted(record.threads_per_rank, "thread") + " each");
  if (!record.launch.empty()) parts.push_back("started as " + record.launch);
  if (!record.binding.empty()) parts.push_back("pinned to " + record.binding);
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string circumstances(const NamedRecord& named) {
  const results::RunRecord& record = named.record;
  std::string text = item("file", named.name) + item("started", record.started_at) +
                     item("command", fmt::format("{}", fmt::join(record.command, " "))) +
                     item("versions", versions_of(record)) + item("kernels", results::kernels_text(record));
  for (size_t i = 0; i < std::min(kMostMachines, record.machines.size()); ++i) {
    text += item("machine", machine_text(record.machines[i]));
  }
  if (record.machines.size() > kMostMachines) {
    text += item("", fmt::format("and {}", counted(record.machines.size() - kMostMachines, "more machine")));
  }
  text += item("ranks", ranks_text(record)) +
          item("GPUs of the ranks", topology::rank_gpus_text(record.rank_gpus)) +
          item("memory allocator", record.allocator);
  return text.empty() ? "" : "<dl>\n" + text + "</dl>\n";
}

}  // namespace lockstep::plots
