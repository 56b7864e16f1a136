#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/topology/path.h"

namespace lockstep::topology {

enum class DeviceKind { kGpu, kNic };

/// A GPU or a network device. Empty and 0: not to be found out.
struct Device {
  DeviceKind kind = DeviceKind::kGpu;
  /// "GPU0", "mlx5_0", "eth0": unique on its host.
  std::string label;
  /// "NVIDIA H200"; of a network device what its maker calls it, if that is known, and its other names.
  std::string name;
  /// "0000:06:00.0", in lower case.
  std::string pci_bus_id;
  int64_t memory_bytes = 0;
  std::optional<int> numa_node;
  /// Hardware threads near it: "0-19,40-59".
  std::string cpu_affinity;
};

/// The GPUs and network devices of a host, and what lies between them.
struct DeviceMap {
  std::vector<Device> devices;
  /// paths[a][b]: as many rows and columns as devices.
  std::vector<std::vector<Path>> paths;
  /// Of NVIDIA's driver: "580.65.06", and the newest CUDA that it runs: "13.0".
  std::string driver_version;
  std::string cuda_version;

  int gpus() const;
};

/// Paths among the devices before `end` by how often they occur, most first: "NV2 x 8, SYS x 12".
std::string path_counts(const DeviceMap& map, size_t end);

/// "00000000:0A:00.0" as NVML writes it, "0000:0a:00.0" and "0A:00.0" are one: "0000:0a:00.0".
std::string normal_bus_id(std::string_view text);

}  // namespace lockstep::topology
