#pragma once

#include <string>
#include <string_view>

#include "lockstep/topology/system.h"

namespace lockstep::topology {

// Systems as hwloc shows them: packages, caches, NUMA nodes, and on the PCI bus NVIDIA's GPUs and network
// devices, in the order of the bus, with the kind of path between any two. Memory and NVLinks of GPUs stay
// unknown; product names of devices are known if a recorded system has them.

/// The whole host of the calling process. Never throws: facts that hwloc lacks stay empty.
System read_host_system();

/// A system that `lstopo FILE.xml` recorded. Throws Error that names `name` for any other text.
System system_from_xml(std::string_view xml, std::string_view name);

/// A system without PCI devices in hwloc's synthetic notation ("package:2 l3:1 core:4 pu:2"). Throws
/// ConfigError for any other text.
System system_from_synthetic(const std::string& description);

}  // namespace lockstep::topology
