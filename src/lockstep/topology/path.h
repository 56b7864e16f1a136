#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::topology {

/// What lies between two devices, in the words of `nvidia-smi topo -m`, from far to near.
enum class PathKind {
  kUnknown,
  /// SYS: across the link between NUMA nodes.
  kSystem,
  /// NODE: across the link between host bridges of one NUMA node.
  kNode,
  /// PHB: through one host bridge.
  kHostBridge,
  /// PXB: through several PCIe switches, and no host bridge.
  kSwitches,
  /// PIX: through one PCIe switch at most.
  kSwitch,
  /// NV#: over NVLinks, directly or through NVSwitches.
  kNvlink,
  /// X: the device itself.
  kSelf,
};

struct Path {
  PathKind kind = PathKind::kUnknown;
  /// Links that work together; only of kNvlink.
  int nvlinks = 0;

  bool operator==(const Path&) const = default;
};

/// "SYS", "NV12", ...; "N/A" for what is not known.
std::string to_string(const Path& path);

/// What to_string wrote; empty for anything else.
std::optional<Path> parse_path(std::string_view text);

}  // namespace lockstep::topology
