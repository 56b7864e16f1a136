#include "lockstep/results/files/system_json.h"

#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/results/files/json_parse.h"
#include "lockstep/topology/hwloc_system.h"

namespace lockstep::results {
namespace {

using topology::CacheGroup;
using topology::Device;
using topology::DeviceKind;
using topology::NumaNode;
using topology::Package;
using topology::Path;
using topology::PathKind;

constexpr const char* kVersionKey = "topology_version";
constexpr const char* kTopologyAdvice =
    "Give a file that lockstep topo wrote with --json, or XML that lstopo wrote.";

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
Json count_or_null(int64_t value) {
  return value == 0 ? Json(nullptr) : Json(value);
}

int64_t read_bytes(const JsonNode& node) {
  return node.missing() ? 0 : node.whole(0, std::numeric_limits<int64_t>::max());
}

Json package_json(const Package& package) {
  Json caches = Json::array();
  for (const CacheGroup& cache : package.caches) {
    caches.push_back({{"name", cache.name},
                      {"bytes", cache.bytes},
                      {"count", cache.count},
                      {"cores_each", cache.cores_each}});
  }
  return {{"processor", text_or_null(package.processor)},
          {"cores", package.cores},
          {"hardware_threads", package.hardware_threads},
          {"cpus", text_or_null(package.cpus)},
          {"caches", std::move(caches)}};
}

Package read_package(const JsonNode& node) {
  Package package{.processor = node["processor"].text_or(""),
                  .cores = node["cores"].count(1),
                  .hardware_threads = node["hardware_threads"].count(1),
                  .cpus = node["cpus"].text_or(""),
                  .caches = {}};
  if (const JsonNode caches = node["caches"]; !caches.missing()) {
    for (const JsonNode& cache : caches.elements()) {
      package.caches.push_back({.name = cache["name"].text(),
                                .bytes = read_bytes(cache["bytes"]),
                                .count = cache["count"].count(1),
                                .cores_each = cache["cores_each"].count(1)});
    }
  }
  return package;
}

Json device_json(const Device& device) {
  return {{"kind", device.kind == DeviceKind::kGpu ? "gpu" : "nic"},
          {"label", device.label},
          {"name", text_or_null(device.name)},
          {"pci_bus_id", text_or_null(device.pci_bus_id)},
          {"memory_bytes", count_or_null(device.memory_bytes)},
          {"numa_node", device.numa_node ? Json(*device.numa_node) : Json(nullptr)},
          {"cpu_affinity", text_or_null(device.cpu_affinity)}};
}

Device read_device(const JsonNode& node) {
  const std::string kind = node["kind"].text();
  if (kind != "gpu" && kind != "nic") node["kind"].refuse("\"gpu\" or \"nic\"");
  Device device{.kind = kind == "gpu" ? DeviceKind::kGpu : DeviceKind::kNic,
                .label = node["label"].text(),
                .name = node["name"].text_or(""),
                .pci_bus_id = node["pci_bus_id"].text_or(""),
                .memory_bytes = read_bytes(node["memory_bytes"]),
                .numa_node = std::nullopt,
                .cpu_affinity = node["cpu_affinity"].text_or("")};
  if (device.label.empty()) node["label"].refuse("a name");
  if (const JsonNode numa = node["numa_node"]; !numa.missing()) device.numa_node = numa.count(0);
  return device;
}

Path read_path(const JsonNode& node) {
  const std::optional<Path> path = topology::parse_path(node.text());
  if (!path) node.refuse("X, SYS, NODE, PHB, PXB, PIX, N/A, or NV with a number of links");
  return *path;
}

std::vector<std::vector<Path>> read_paths(const JsonNode& node, size_t devices) {
  std::vector<std::vector<Path>> paths;
  const std::vector<JsonNode> rows = node.elements();
  if (rows.size() != devices) node.refuse(fmt::format("a list of {}, one row per device", devices));
  for (const JsonNode& row : rows) {
    const std::vector<JsonNode> cells = row.elements();
    if (cells.size() != devices) row.refuse(fmt::format("a list of {}, one path per device", devices));
    std::vector<Path>& read = paths.emplace_back();
    for (const JsonNode& cell : cells) {
      read.push_back(read_path(cell));
      const bool self = read.back().kind == PathKind::kSelf;
      if (self != (read.size() == paths.size())) cell.refuse(self ? "the path to another device" : "X");
    }
  }
  return paths;
}

}  // namespace

Json device_map_json(const DeviceMap& map) {
  if (map.devices.empty()) return nullptr;
  Json devices = Json::array(), paths = Json::array();
  for (const Device& device : map.devices) devices.push_back(device_json(device));
  for (const std::vector<Path>& row : map.paths) {
    Json& cells = paths.emplace_back(Json::array());
    for (const Path& path : row) cells.push_back(to_string(path));
  }
  return {{"driver_version", text_or_null(map.driver_version)},
          {"driver_cuda_version", text_or_null(map.cuda_version)},
          {"devices", std::move(devices)},
          {"paths", std::move(paths)}};
}

DeviceMap read_device_map(const JsonNode& node) {
  DeviceMap map;
  if (node.missing()) return map;
  map.driver_version = node["driver_version"].text_or("");
  map.cuda_version = node["driver_cuda_version"].text_or("");
  std::set<std::string> labels;
  for (const JsonNode& device : node["devices"].elements()) {
    map.devices.push_back(read_device(device));
    if (!labels.insert(map.devices.back().label).second) device["label"].refuse("a name of its own");
  }
  map.paths = read_paths(node["paths"], map.devices.size());
  return map;
}

std::string system_to_json(const System& system) {
  Json packages = Json::array(), nodes = Json::array();
  for (const Package& package : system.packages) packages.push_back(package_json(package));
  for (const NumaNode& node : system.numa_nodes) {
    nodes.push_back({{"index", node.index},
                     {"memory_bytes", count_or_null(node.memory_bytes)},
                     {"cpus", text_or_null(node.cpus)}});
  }
  return to_text({{kVersionKey, kTopologyVersion},
                  {"host", text_or_null(system.host)},
                  {"packages", std::move(packages)},
                  {"numa_nodes", std::move(nodes)},
                  {"topology", device_map_json(system.map)},
                  {"why_no_gpus", text_or_null(system.why_no_gpus)}});
}

System system_from_json(std::string_view text, std::string_view name) {
  const nlohmann::json document = parse_json(text, name, kTopologyAdvice);
  const JsonNode root(document, name);
  if (!document.is_object() || root[kVersionKey].missing()) {
    const bool result = document.is_object() && !root["benchmark_results"].missing();
    throw Error(fmt::format("'{}' is JSON, but no recorded topology: it has no '{}'", name, kVersionKey),
                result ? "lockstep show prints the results of lockstep bench." : kTopologyAdvice);
  }
  if (const int version = root[kVersionKey].count(1); version > kTopologyVersion) {
    throw Error(fmt::format("'{}' is of topology version {}; this lockstep reads up to {}", name, version,
                            kTopologyVersion),
                "Use the lockstep that wrote it, or a newer one.");
  }
  System system;
  system.host = root["host"].text_or("");
  if (const JsonNode packages = root["packages"]; !packages.missing()) {
    for (const JsonNode& package : packages.elements()) system.packages.push_back(read_package(package));
  }
  if (const JsonNode nodes = root["numa_nodes"]; !nodes.missing()) {
    for (const JsonNode& node : nodes.elements()) {
      system.numa_nodes.push_back({.index = node["index"].count(0),
                                   .memory_bytes = read_bytes(node["memory_bytes"]),
                                   .cpus = node["cpus"].text_or("")});
    }
  }
  system.map = read_device_map(root["topology"]);
  system.why_no_gpus = root["why_no_gpus"].text_or("");
  return system;
}

System read_system(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '<') {
    return topology::system_from_xml(std::string_view(text).substr(first), path.string());
  }
  return system_from_json(text, path.string());
}

}  // namespace lockstep::results
