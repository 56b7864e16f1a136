#pragma once

#include "lockstep/topology/machine.h"
#include "lockstep/topology/system.h"

namespace lockstep::topology {

// None of these throws: facts that cannot be read stay empty, and unlimited is assumed.

/// The host of the calling process, within the limits of its affinity mask and cgroups. Takes some
/// milliseconds.
Machine inspect_host();

/// The whole host: hwloc for processors, memory and the PCI bus, NVIDIA's driver for GPUs. Takes some
/// milliseconds, with GPUs that sleep some seconds.
System inspect_system();

/// Only the devices of the host; none, and quickly so, if NVIDIA's driver shows no GPU.
DeviceMap inspect_gpus();

}  // namespace lockstep::topology
