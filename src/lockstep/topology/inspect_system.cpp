#include "lockstep/topology/inspect_system.h"

#include "lockstep/topology/gpu_report.h"
#include "lockstep/topology/hwloc_system.h"
#include "lockstep/topology/nvml.h"

namespace lockstep::topology {

System inspect_system() {
  const Nvml nvml;
  System system = read_host_system();
  if (nvml.why_not().empty()) return with_gpus(std::move(system), nvml.report());
  system.why_no_gpus = nvml.why_not();
  return system;
}

DeviceMap inspect_gpus() {
  const Nvml nvml;
  if (nvml.gpus() == 0) return {};
  return with_gpus(read_host_system(), nvml.report()).map;
}

}  // namespace lockstep::topology
