#pragma once

#include <string>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/topology/machine.h"
#include "lockstep/topology/system.h"

namespace lockstep::topology {

// None of these functions throws: facts that cannot be read stay empty, and unlimited is assumed.

/// The system with the driver's `gpus` in place of those that its PCI bus showed, in the driver's order.
/// Where the driver does not know a path or the place of a GPU, the bus does.
System with_gpus(System system, DeviceMap gpus);

/// The host of the calling process, within the limits of its affinity mask and cgroups. Takes some
/// milliseconds.
Machine inspect_host();

/// The whole host: hwloc for processors, memory and the PCI bus, NVIDIA's driver for GPUs. Takes some
/// milliseconds, with GPUs that sleep some seconds.
System inspect_system();

/// Only the devices of the host; none, and quickly so, if NVIDIA's driver shows no GPU.
DeviceMap inspect_gpus();

/// The part of its host that one rank may use: a launcher such as mpirun gives every rank a mask of its own.
struct RankMask {
  std::string host;
  /// The machine's numbers of its cores, and the system's of their hardware threads.
  std::vector<int> cores;
  std::vector<int> hardware_threads;

  LOCKSTEP_DESCRIBE(kRequired, host, cores, hardware_threads)
};

/// Sets the cores and hardware threads of each machine, which one of its ranks inspected within its own mask,
/// to those that its ranks may use together. A CPU quota still limits the cores.
void unite_masks(const std::vector<RankMask>& masks, std::vector<Machine>& machines);

}  // namespace lockstep::topology
