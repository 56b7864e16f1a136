#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "lockstep/base/units.h"
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
