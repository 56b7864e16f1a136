#pragma once

#include "lockstep/topology/system.h"

namespace lockstep::topology {

/// Looks at the whole host of the calling process: hwloc for processors, memory and the PCI bus, NVIDIA's
/// driver for GPUs. Takes some milliseconds, with GPUs that sleep some seconds. Never throws.
System inspect_system();

/// Its devices only, and none where NVIDIA's driver shows no GPU: quick then.
DeviceMap inspect_gpus();

}  // namespace lockstep::topology
