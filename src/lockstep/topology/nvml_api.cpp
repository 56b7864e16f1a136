#include "lockstep/topology/nvml_api.h"

#include <dlfcn.h>

namespace lockstep::topology::nvml {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

const char* find_functions(void* library, Functions& functions) {
  if (!find(library, "nvmlInit_v2", functions.init)) return "nvmlInit_v2";
  if (!find(library, "nvmlShutdown", functions.shutdown)) return "nvmlShutdown";
  if (!find(library, "nvmlDeviceGetCount_v2", functions.count)) return "nvmlDeviceGetCount_v2";
  if (!find(library, "nvmlDeviceGetHandleByIndex_v2", functions.handle))
    return "nvmlDeviceGetHandleByIndex_v2";
  find(library, "nvmlErrorString", functions.error_string);
  find(library, "nvmlSystemGetDriverVersion", functions.driver_version);
  find(library, "nvmlSystemGetCudaDriverVersion_v2", functions.cuda_version);
  find(library, "nvmlDeviceGetName", functions.name);
  find(library, "nvmlDeviceGetPciInfo_v3", functions.pci_info);
  find(library, "nvmlDeviceGetMemoryInfo", functions.memory);
  find(library, "nvmlDeviceGetCpuAffinity", functions.cpu_affinity);
  find(library, "nvmlDeviceGetMemoryAffinity", functions.memory_affinity);
  find(library, "nvmlDeviceGetTopologyCommonAncestor", functions.common_ancestor);
  find(library, "nvmlDeviceGetNvLinkState", functions.link_state);
  find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", functions.link_remote_type);
  find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", functions.link_remote_pci);
  find(library, "nvmlDeviceGetClockInfo", functions.clock);
  find(library, "nvmlDeviceGetMaxClockInfo", functions.max_clock);
  find(library, "nvmlDeviceGetTemperatureV", functions.temperature);
  find(library, "nvmlDeviceGetTemperature", functions.old_temperature);
  find(library, "nvmlDeviceGetPowerUsage", functions.power);
  find(library, "nvmlDeviceGetEnforcedPowerLimit", functions.power_limit);
  if (!find(library, "nvmlDeviceGetCurrentClocksEventReasons", functions.clock_reasons))
    find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", functions.clock_reasons);
  find(library, "nvmlDeviceGetUtilizationRates", functions.utilization);
  return nullptr;
}

}  // namespace lockstep::topology::nvml
