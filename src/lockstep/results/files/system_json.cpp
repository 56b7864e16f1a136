#include "lockstep/results/files/system_json.h"

#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/topology/system.h"

namespace lockstep {
namespace {

using topology::DeviceKind;
using topology::DeviceMap;
using topology::Path;
using topology::PathKind;

constexpr const char* kVersionKey = "topology_version";
constexpr const char* kTopologyAdvice =
    "Give a file that lockstep topo wrote with --json, or XML that lstopo wrote.";

/// Throws where a device has no name of its own.
void check_labels(const JsonNode& devices) {
  std::set<std::string> labels;
  for (const JsonNode& device : devices.elements()) {
    const JsonNode label = device["label"];
    if (label.text().empty()) label.refuse("a name");
    if (!labels.insert(label.text()).second) label.refuse("a name of its own");
  }
}

/// Throws unless there is a row and a column per device, and X where a device meets itself.
void check_paths(const JsonNode& node, const DeviceMap& map) {
  const size_t devices = map.devices.size();
  const std::vector<JsonNode> rows = node.elements();
  if (rows.size() != devices) node.refuse(fmt::format("a list of {}, one row per device", devices));
  for (size_t row = 0; row < devices; ++row) {
    const std::vector<JsonNode> cells = rows[row].elements();
    if (cells.size() != devices) rows[row].refuse(fmt::format("a list of {}, one path per device", devices));
    for (size_t column = 0; column < devices; ++column) {
      const bool self = map.paths[row][column].kind == PathKind::kSelf;
      if (self != (row == column)) cells[column].refuse(self ? "the path to another device" : "X");
    }
  }
}

}  // namespace

template <>
struct JsonCodec<DeviceKind> {
  static Json encode(DeviceKind kind) { return kind == DeviceKind::kGpu ? "gpu" : "nic"; }
  static void decode(const JsonNode& node, DeviceKind& kind, const FieldRule&) {
    const std::string text = node.text();
    if (text != "gpu" && text != "nic") node.refuse("\"gpu\" or \"nic\"");
    kind = text == "gpu" ? DeviceKind::kGpu : DeviceKind::kNic;
  }
};

template <>
struct JsonCodec<Path> {
  static Json encode(const Path& path) { return to_string(path); }
  static void decode(const JsonNode& node, Path& path, const FieldRule&) {
    const std::optional<Path> parsed = topology::parse_path(node.text());
    if (!parsed) node.refuse("X, SYS, NODE, PHB, PXB, PIX, N/A, or NV with a number of links");
    path = *parsed;
  }
};

Json JsonCodec<DeviceMap>::encode(const DeviceMap& map) {
  // Most hosts have no GPU; two empty lists in every machine would only take room.
  if (map.devices.empty()) return nullptr;
  JsonFieldWriter writer;
  DeviceMap::describe(writer, map);
  return std::move(writer).take();
}

void JsonCodec<DeviceMap>::decode(const JsonNode& node, DeviceMap& map, const FieldRule&) {
  JsonFieldReader reader(node);
  DeviceMap::describe(reader, map);
  check_labels(node["devices"]);
  check_paths(node["paths"], map);
}

namespace results {

std::string system_to_json(const System& system) {
  return json_text(encode_after({{kVersionKey, kTopologyVersion}}, system));
}

System system_from_json(std::string_view text, std::string_view name) {
  const nlohmann::json document = parse_json(text, name, kTopologyAdvice);
  const JsonNode root(document, name);
  if (!document.is_object() || root[kVersionKey].missing()) {
    // The most likely mistake: a result file where a topology is wanted.
    const bool result = document.is_object() && !root["benchmark_results"].missing();
    throw Error(fmt::format("'{}' is JSON, but no recorded topology: it has no '{}'", name, kVersionKey),
                result ? "lockstep show prints the results of lockstep bench." : kTopologyAdvice);
  }
  root[kVersionKey].version(kTopologyVersion);
  System system;
  decode(root, system);
  return system;
}

System system_from_text(std::string_view text, std::string_view name) {
  // XML begins with <; anything else is read as JSON, whose errors explain themselves.
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '<') {
    return topology::system_from_xml(text.substr(first), name);
  }
  return system_from_json(text, name);
}

}  // namespace results
}  // namespace lockstep
