#pragma once

#include <hwloc.h>

#include "lockstep/topology/device_map.h"

namespace lockstep::topology {

/// NVIDIA's GPUs and all network devices on the PCI bus of a loaded topology, with the paths between them.
DeviceMap pci_devices(hwloc_topology_t topology);

}  // namespace lockstep::topology
