#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fields.h"

namespace lockstep::topology {

/// The kind of path between two devices, in the words of `nvidia-smi topo -m`, from far to near.
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
  /// Links that work together; set for kNvlink only.
  int nvlinks = 0;

  bool operator==(const Path&) const = default;
};

/// "SYS", "NV12", ...; "N/A" for an unknown path.
std::string to_string(const Path& path);

/// The inverse of to_string; empty for any other text.
std::optional<Path> parse_path(std::string_view text);

enum class DeviceKind { kGpu, kNic };

/// A GPU or a network device. Unknown facts are empty or 0.
struct Device {
  DeviceKind kind = DeviceKind::kGpu;
  /// "GPU0", "mlx5_0", "eth0": unique on its host.
  std::string label;
  /// "NVIDIA H200"; for a network device its maker's name for it, if known, and its other names.
  std::string name;
  /// "0000:06:00.0", in lower case.
  std::string pci_bus_id;
  int64_t memory_bytes = 0;
  std::optional<int> numa_node;
  /// Hardware threads near it: "0-19,40-59".
  std::string cpu_affinity;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    LOCKSTEP_FIELDS(kRequired, kind, label)
    LOCKSTEP_FIELDS(kNullable, name, pci_bus_id)
    fields("memory_bytes", self.memory_bytes, kNullableCount);
    fields("numa_node", self.numa_node);
    fields("cpu_affinity", self.cpu_affinity, kNullable);
  }
};

/// The GPUs and network devices of a host, and the paths between them.
struct DeviceMap {
  std::vector<Device> devices;
  /// paths[a][b]: as many rows and columns as devices.
  std::vector<std::vector<Path>> paths;
  /// Version of NVIDIA's driver, "580.65.06", and the newest CUDA that it runs, "13.0".
  std::string driver_version;
  std::string cuda_version;

  int gpus() const;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    fields("driver_version", self.driver_version, kNullable);
    fields("driver_cuda_version", self.cuda_version, kNullable);
    LOCKSTEP_FIELDS(kRequired, devices, paths)
  }
};

/// Paths among the devices before `end` by how often they occur, most first: "NV2 x 8, SYS x 12".
std::string path_counts(const DeviceMap& map, size_t end);

/// One notation for a place on the PCI bus: "0000:0a:00.0" for "00000000:0A:00.0", as NVML writes it, for
/// "0000:0a:00.0" and for "0A:00.0".
std::string normal_bus_id(std::string_view text);

/// A GPU that a process may compute on. Empty or 0: unknown to the driver.
struct VisibleGpu {
  /// "NVIDIA H200".
  std::string name;
  /// "0000:06:00.0", the key for Nvml::index_of.
  std::string pci_bus_id;
  /// Unique among all GPUs, and among the slices (MIG) of one GPU.
  std::string uuid;
  int64_t memory_bytes = 0;
};

/// The GPUs that this process may compute on, in the order of CUDA's numbers, which need not be NVML's: those
/// that CUDA_VISIBLE_DEVICES leaves, in the order of CUDA_DEVICE_ORDER. Asks the driver's own library and
/// makes no context, so that no memory of a GPU is taken. Empty without a driver or a GPU. Never throws.
std::vector<VisibleGpu> visible_gpus(const std::string& library = "libcuda.so.1");

}  // namespace lockstep::topology
