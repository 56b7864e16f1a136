#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/json_codec.h"
#include "lockstep/topology/system.h"

namespace lockstep {

/// null for a map without devices.
template <>
struct JsonCodec<topology::DeviceMap> {
  static Json encode(const topology::DeviceMap& map);
  static void decode(const JsonNode& node, topology::DeviceMap& map, const FieldRule& rule);
};

namespace results {

using topology::System;

/// Version of the file that `lockstep topo --json` writes.
constexpr int kTopologyVersion = 1;

/// A system as `lockstep topo --json` writes it; docs/json.md describes it.
std::string system_to_json(const System& system);

/// The system that system_to_json wrote. Errors as from_json's.
System system_from_json(std::string_view text, std::string_view name);

/// A recorded system: of system_to_json, or XML of hwloc's lstopo.
System system_from_text(std::string_view text, std::string_view name);

}  // namespace results
}  // namespace lockstep
