#pragma once

#include <string>
#include <vector>

#include "lockstep/topology/device_map.h"
#include "lockstep/topology/system.h"

namespace lockstep::topology {

/// The far end of an NVLink that is up.
struct NvLink {
  enum class To { kGpu, kSwitch, kOther };
  To to = To::kOther;
  /// Set for a GPU.
  std::string pci_bus_id;
};

/// The driver's facts about one GPU.
struct GpuFacts : Device {
  std::vector<NvLink> links;
};

/// The driver's facts about all GPUs, in its own order.
struct GpuReport {
  std::string driver_version;
  std::string cuda_version;
  std::vector<GpuFacts> gpus;
  /// Paths between them on PCIe; as many rows and columns as GPUs.
  std::vector<std::vector<Path>> pci_paths;
};

/// NVLinks between two GPUs, as `nvidia-smi topo -m` counts them: those from one to the other or, if there
/// are none, those that each has into NVSwitches (the fewer of the two). 0: none.
int nvlinks_between(const GpuFacts& one, const GpuFacts& other);

/// The system with the driver's GPUs in place of those that its PCI bus showed, in the driver's order. PCI
/// paths come from the driver if it tells them, else from the bus.
System with_gpus(System system, const GpuReport& report);

}  // namespace lockstep::topology
