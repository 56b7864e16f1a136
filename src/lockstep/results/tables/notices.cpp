#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

using topology::CacheGroup;
using topology::Device;
using topology::DeviceKind;
using topology::DeviceMap;
using topology::NumaNode;
using topology::Package;
using topology::Path;
using topology::PathKind;
using topology::System;

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
  // The head of a sweep is printed before it has rows.
  const bool fewer = record.runs.empty() ? ranks > 1 : std::ranges::any_of(record.runs, [&](const Run& run) {
    return run.ranks != ranks;
  });
  std::string text = fmt::format("{}{}", fewer ? "up to " : "", counted(ranks, "rank"));
  if (threads > 0) text += fmt::format(", {} each", counted(threads, "thread"));
  if (record.launch == "processes" || record.launch == "threads") {
    text += fmt::format(", as {}", record.launch);
  } else if (!record.launch.empty()) {
    text += fmt::format(", started by {}", record.launch);
  }
  const bool pinned =
      std::ranges::any_of(record.rank_cpus, [](const std::string& cpus) { return !cpus.empty(); });
  if (!pinned) return record.source == kRecordedSource ? text : text + ", not pinned";
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
  if (sizes_mb.size() == 1) return mebibytes_text(sizes_mb.front());
  return fmt::format("{} MiB", fmt::join(sizes_mb, ", "));
}

/// Rows that one warning names; the others are counted.
constexpr size_t kMostNamedRows = 4;

/// Names that tell the rows of a record apart: "lenet5 ddp at 2 ranks, buckets of 1 MiB".
class RowNames {
 public:
  explicit RowNames(const RunRecord& record) {
    std::vector<const Run*> runs;
    for (const Run& run : record.runs) {
      if (communicates(run)) runs.push_back(&run);
      batches_vary_ |= run.batch_per_rank != record.runs.front().batch_per_rank;
    }
    varied_ = varied_settings(runs);
  }

  std::string of(const Run& run) const {
    return fmt::format("{} {} at {}{}{}", run.model, run.strategy, counted(run.ranks, "rank"),
                       batches_vary_ ? fmt::format(", batch {}", run.batch_per_rank) : "",
                       settings_text(run, varied_));
  }

 private:
  std::vector<const Setting*> varied_;
  bool batches_vary_ = false;
};

/// A row's part in a warning that several rows share.
struct WarnedRow {
  const Run* run = nullptr;
  int launches = 0;
};

/// " in 3 of 5 launches"; empty where there was one launch.
std::string launches_text(int launches, int of) {
  return of > 1 ? fmt::format(" in {} of {} launches", std::min(launches, of), of) : "";
}

std::string launches_in_brackets(int launches, int of) {
  const std::string text = launches_text(launches, of);
  return text.empty() ? "" : fmt::format(" ({})", text.substr(1));
}

/// "Likewise: lenet5 ddp at 2 ranks in 3 of 5 launches, ... and 7 more rows."
std::string likewise_text(const std::vector<WarnedRow>& rows, const RowNames& names) {
  if (rows.size() < 2) return "";
  std::string text = " Likewise: ";
  for (size_t i = 1; i < std::min(rows.size(), kMostNamedRows + 1); ++i) {
    text += fmt::format("{}{}{}", i > 1 ? "; " : "", names.of(*rows[i].run),
                        launches_text(rows[i].launches, launches(*rows[i].run)));
  }
  if (rows.size() > kMostNamedRows + 1) {
    text +=
        fmt::format("; and {}", counted(static_cast<int64_t>(rows.size() - kMostNamedRows - 1), "more row"));
  }
  return text + ".";
}

/// The warning with the same advice: launches and rows differ in figures only.
bool are_alike(const Warning& one, const Warning& other) {
  return one.advice == other.advice && one.loud == other.loud;
}

std::string_view first_word(std::string_view text) {
  return text.substr(0, text.find(' '));
}

/// Warnings of a run, of its early end, and of numbers that cannot be true.
std::vector<Warning> warnings_of(const Run& run, const RunRecord& record) {
  std::vector<Warning> warnings = run.warnings;
  if (!run.finished()) {
    const auto steps = static_cast<int64_t>(run.samples.size() + run.warmup_samples.size());
    // The reason of an incomplete record stands below its tables already.
    const std::string reason = run.unfinished == record.incomplete ? "" : ": " + run.unfinished;
    warnings.push_back(
        {fmt::format("It is unfinished: it ended after {}{}.", counted(steps, "step"), reason),
         "It has no interval and no speed-up, and nothing is compared with it. Measure it again.", true,
         launches(run)});
  }
  if (const std::string doubt = run.doubt.empty() ? doubt_of_factors(run) : run.doubt; !doubt.empty()) {
    warnings.push_back({doubt, "Do not trust what is marked with ?: measure again while nothing else runs.",
                        true, launches(run)});
  }
  return warnings;
}

/// Widths of the matrix: as nvidia-smi's, wider only where a name needs it.
constexpr size_t kPathColumn = 8;
constexpr size_t kPathGap = 2;
constexpr size_t kSideGap = 4;

constexpr const char* kLegend =
    "  X    = the device itself\n"
    "  SYS  = across the link between NUMA nodes (UPI, Infinity Fabric, ...)\n"
    "  NODE = across the link between PCIe host bridges of one NUMA node\n"
    "  PHB  = through one PCIe host bridge, mostly the processor\n"
    "  PXB  = through several PCIe switches, and no host bridge\n"
    "  PIX  = through one PCIe switch at most\n"
    "  NV#  = over # NVLinks together, directly or through NVSwitches\n";
constexpr const char* kUnknownLegend = "  N/A  = not to be found out\n";

std::string or_dash(const std::string& text) {
  return text.empty() ? kNoValue : text;
}
std::string bytes_text(int64_t bytes) {
  return bytes > 0 ? format_bytes(bytes) : kNoValue;
}

/// "node1: 2 packages, 2 NUMA nodes, 64 cores, 128 hardware threads, 755.0 GiB of memory, 8 GPUs".
std::string system_summary(const System& system) {
  std::vector<std::string> parts;
  int cores = 0, threads = 0;
  int64_t memory_bytes = 0;
  for (const Package& package : system.packages) {
    cores += package.cores;
    threads += package.hardware_threads;
  }
  for (const NumaNode& node : system.numa_nodes) memory_bytes += node.memory_bytes;
  const auto add = [&](int64_t count, const char* thing) {
    if (count > 0) parts.push_back(counted(count, thing));
  };
  add(static_cast<int64_t>(system.packages.size()), "package");
  add(static_cast<int64_t>(system.numa_nodes.size()), "NUMA node");
  add(cores, "core");
  add(threads, "hardware thread");
  if (memory_bytes > 0) parts.push_back(format_bytes(memory_bytes) + " of memory");
  add(system.map.gpus(), "GPU");
  return fmt::format("{}: {}", system.host.empty() ? "host" : system.host, fmt::join(parts, ", "));
}

/// A section without rows is left out, heading and all.
void add_section(Document& document, const char* title, Table table) {
  if (table.rows.empty()) return;
  document.add(Heading{title, true});
  document.add(std::move(table));
}

Table packages_table(const System& system) {
  Table table{
      .columns = {"package", "cores", "hardware threads", {"their numbers", kText}, {"processor", kText}}};
  for (size_t i = 0; i < system.packages.size(); ++i) {
    const Package& package = system.packages[i];
    table.add_row({fmt::format("{}", i), fmt::format("{}", package.cores),
                   fmt::format("{}", package.hardware_threads), or_dash(package.cpus),
                   or_dash(package.processor)});
  }
  return table;
}

Table caches_table(const System& system) {
  Table table{.columns = {"package", {"cache", kText}, "count", "size", "cores each"}};
  for (size_t i = 0; i < system.packages.size(); ++i) {
    for (const CacheGroup& cache : system.packages[i].caches) {
      table.add_row({fmt::format("{}", i), cache.name, fmt::format("{}", cache.count),
                     bytes_text(cache.bytes), fmt::format("{}", cache.cores_each)});
    }
  }
  return table;
}

Table numa_table(const System& system) {
  Table table{.columns = {"NUMA node", "memory", {"hardware threads", kText}}};
  for (const NumaNode& node : system.numa_nodes) {
    table.add_row({fmt::format("{}", node.index), bytes_text(node.memory_bytes), or_dash(node.cpus)});
  }
  return table;
}

Table devices_table(const DeviceMap& map) {
  Table table{.columns = {{"device", kText}, {"PCI bus id", kText}, "NUMA node", "memory", {"name", kText}}};
  for (const Device& device : map.devices) {
    table.add_row({device.label, or_dash(device.pci_bus_id),
                   device.numa_node ? fmt::format("{}", *device.numa_node) : kNoValue,
                   bytes_text(device.memory_bytes), or_dash(device.name)});
  }
  return table;
}

/// Whether the legend needs a line for "N/A".
bool any_unknown(const DeviceMap& map) {
  return std::ranges::any_of(map.paths, [](const std::vector<Path>& row) {
    return std::ranges::find(row, PathKind::kUnknown, &Path::kind) != row.end();
  });
}

/// The matrix, the legend of its words, and the driver. Hosts without a GPU have nothing to show.
void add_paths(Document& document, const DeviceMap& map) {
  if (map.gpus() == 0) return;
  document.add(Heading{"Paths"});
  document.add(Preformatted{path_matrix(map)});
  document.add(Preformatted{fmt::format("{}{}", kLegend, any_unknown(map) ? kUnknownLegend : "")});
  if (map.driver_version.empty()) return;
  document.add(Remark{
      "", fmt::format("Driver {}, for CUDA up to {}.", map.driver_version, or_dash(map.cuda_version))});
}

/// A column beside the rows of GPUs; left out where no GPU has a text for it.
struct Side {
  std::string head;
  std::function<std::string(const Device&)> text;
};

/// The columns for which any GPU has a text.
std::vector<Side> sides_of(const DeviceMap& map) {
  std::vector<Side> sides{{"CPU Affinity", [](const Device& gpu) { return gpu.cpu_affinity; }},
                          {"NUMA Affinity", [](const Device& gpu) {
                             return gpu.numa_node ? fmt::format("{}", *gpu.numa_node) : "";
                           }}};
  std::erase_if(sides, [&](const Side& side) {
    return std::ranges::none_of(map.devices, [&](const Device& device) {
      return device.kind == DeviceKind::kGpu && !side.text(device).empty();
    });
  });
  return sides;
}

/// The field, and spaces up to the next column.
std::string padded(const std::string& field, size_t width) {
  const size_t used = display_width(field);
  return field + std::string(used < width ? width - used : 0, ' ');
}

/// The line without trailing spaces, which a copied matrix would keep.
std::string line_of(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
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

std::string trials_text(const std::vector<KernelTrial>& trials) {
  std::vector<std::string> all;
  for (const KernelTrial& trial : trials) {
    const bool fused = trial.kernels == "fused";
    const auto [own_s, other_s] =
        fused ? std::pair(trial.fused_s, trial.aten_s) : std::pair(trial.aten_s, trial.fused_s);
    const int batch = trial.global_batch > 0 ? trial.global_batch : trial.batch_per_rank;
    all.push_back(fmt::format("{}, {}, batch {}: {}, chosen over {}: {} against {}", trial.model,
                              trial.precision, batch, trial.kernels, fused ? "aten" : "fused",
                              time_text(own_s), time_text(other_s)));
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

std::vector<Fact> facts_of(const RunRecord& record, size_t most_machines) {
  // Publications and recordings lack these facts.
  const auto unless_published = [&](std::string text) {
    const bool lacks = record.source == kPublished || record.source == kRecordedSource || record.training;
    return lacks ? "" : text;
  };
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
  facts.push_back({"Choice of kernels", trials_text(record.kernel_trials)});
  facts.push_back({"Memory allocation", record.allocator});
  if (record.training) {
    for (const auto& [name, value] : record.training->settings) facts.push_back({name, value});
  }
  facts.push_back({"Command", command_text(record.command)});
  facts.push_back({"Started", record.started_at});
  facts.push_back({"INCOMPLETE", record.incomplete});
  // A fact that the record lacks has an empty value.
  std::erase_if(facts, [](const Fact& fact) { return fact.value.empty(); });
  return facts;
}

std::string header_text(const RunRecord& record, const TextForm& form) {
  const std::string name = record.source == "lockstep"
                               ? fmt::format("lockstep {}: data-parallel training{}", record.lockstep_version,
                                             record.training ? "" : ", measured")
                           : record.source == kPublished      ? "Published results"
                           : record.source == kRecordedSource ? "A training of your own, recorded"
                                                              : "Results of PyTorch's DDP benchmark";
  const std::string line(name.size(), '-');
  std::string text = fmt::format("{}\n{}\n{}\n\n", line, name, line);
  for (const Fact& fact : facts_of(record)) {
    text += wrapped(fmt::format("* {}: ", fact.name), fact.value, 4, form.width);
    for (size_t at = 0; at < fact.lines.size();) {
      const size_t end = fact.lines.find('\n', at) + 1;
      text += "    " + fact.lines.substr(at, end - at);
      at = end;
    }
  }
  if (!record.warnings.empty()) text += '\n';
  for (const Warning& warning : warnings_of_record(record)) text += warning_text(warning, form);
  return text;
}

std::string warning_text(const Warning& warning, const TextForm& form) {
  std::string text = remark_text(warning.loud ? "WARNING: " : "Warning: ", warning.text, form);
  if (!warning.advice.empty()) text += remark_text("         -> ", warning.advice, form);
  if (!warning.loud || form.screen) return text;
  const std::string line(form.width, '!');
  return fmt::format("{}\n{}{}\n", line, text, line);
}

std::string closing_text(const RunRecord& record, const TextForm& form) {
  std::string text;
  // The head of the output has it; here the reader ends.
  if (std::ranges::any_of(record.warnings, &Warning::loud)) {
    text += "The WARNING at the top applies to all of these numbers.\n";
  }
  for (const Warning& warning : warnings_of_rows(record)) text += warning_text(warning, form);
  if (!record.incomplete.empty()) {
    text += remark_text("INCOMPLETE: ", record.incomplete, form);
    text += "            Only what was measured until then is here.\n";
  }
  return text;
}

std::vector<Warning> warnings_of_record(const RunRecord& record) {
  const int launches = std::max(1, static_cast<int>(record.launches_started_at.size()));
  std::vector<Warning> all;
  for (const Warning& warning : record.warnings) {
    // Warnings of one launch concern different hosts, and those of several hosts begin with the host's name.
    const auto known = std::ranges::find_if(all, [&](const Warning& other) {
      return are_alike(other, warning) &&
             (record.machines.size() < 2 || first_word(other.text) == first_word(warning.text));
    });
    if (known == all.end() || launches == 1) {
      all.push_back(warning);
    } else {
      known->launches += warning.launches;
    }
  }
  for (Warning& warning : all) warning.text += launches_in_brackets(warning.launches, launches);
  return all;
}

std::vector<Warning> warnings_of_rows(const RunRecord& record) {
  if (record.runs.empty()) return {};
  const RowNames names(record);
  std::vector<Warning> all;
  std::vector<std::vector<WarnedRow>> rows;
  for (const Run& run : record.runs) {
    for (const Warning& warning : warnings_of(run, record)) {
      // Rows of a sweep tend to share their trouble: one warning per advice.
      const auto known =
          std::ranges::find_if(all, [&](const Warning& other) { return are_alike(other, warning); });
      const auto place = static_cast<size_t>(known - all.begin());
      if (known == all.end()) {
        all.push_back(warning);
        rows.emplace_back();
      }
      if (rows[place].empty() || rows[place].back().run != &run) rows[place].push_back({&run});
      rows[place].back().launches += warning.launches;
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const WarnedRow& first = rows[i].front();
    all[i].text = fmt::format("{}: {}{}{}", names.of(*first.run), all[i].text,
                              launches_in_brackets(first.launches, launches(*first.run)),
                              likewise_text(rows[i], names));
  }
  return all;
}

std::string path_matrix(const DeviceMap& map) {
  const auto column_of = [](const Device& device) {
    return std::max(kPathColumn, display_width(device.label) + kPathGap);
  };
  // Width of the column of labels.
  size_t first = kPathColumn;
  for (const Device& device : map.devices) first = std::max(first, column_of(device));
  const std::vector<Side> sides = sides_of(map);
  std::vector<size_t> side_widths;
  for (const Side& side : sides) {
    size_t& width = side_widths.emplace_back(display_width(side.head));
    for (const Device& device : map.devices) width = std::max(width, display_width(side.text(device)));
    width += kSideGap;
  }

  std::string head(first, ' ');
  for (const Device& device : map.devices) head += padded(device.label, column_of(device));
  for (size_t i = 0; i < sides.size(); ++i) head += padded(sides[i].head, side_widths[i]);
  std::string text = line_of(std::move(head));
  for (size_t row = 0; row < map.devices.size(); ++row) {
    std::string line = padded(map.devices[row].label, first);
    for (size_t column = 0; column < map.devices.size(); ++column) {
      const Path& path = map.paths[row][column];
      line +=
          padded((path.kind == PathKind::kSelf ? " " : "") + to_string(path), column_of(map.devices[column]));
    }
    for (size_t i = 0; map.devices[row].kind == DeviceKind::kGpu && i < sides.size(); ++i) {
      line += padded(sides[i].text(map.devices[row]), side_widths[i]);
    }
    text += line_of(std::move(line));
  }
  return text;
}

Document system_tables(const System& system) {
  Document document = Remark{"", system_summary(system)};
  add_section(document, "Processors", packages_table(system));
  add_section(document, "Caches", caches_table(system));
  add_section(document, "Memory", numa_table(system));
  add_section(document, "Devices", devices_table(system.map));
  add_paths(document, system.map);
  if (!system.why_no_gpus.empty()) document.add(Remark{"GPUs: ", system.why_no_gpus + ".", true});
  return document;
}

}  // namespace lockstep::results
