// lockstep's own declarations of NVML against NVIDIA's header. All of it is checked by compiling it,
// which is done where that header is.

#include <nvml.h>

#include "lockstep/topology/driver_api.h"

#include "topology/same_call.h"

// Older headers lack some of the functions.
#if NVML_API_VERSION >= 13

namespace lockstep::topology::nvml {
namespace {

#define EXPECT_SAME_CALL(ours, theirs) \
  static_assert(SameCall<decltype(Functions::ours.pointer), decltype(&theirs)>::value, #theirs)

EXPECT_SAME_CALL(init, nvmlInit_v2);
EXPECT_SAME_CALL(shutdown, nvmlShutdown);
EXPECT_SAME_CALL(count, nvmlDeviceGetCount_v2);
EXPECT_SAME_CALL(handle, nvmlDeviceGetHandleByIndex_v2);
EXPECT_SAME_CALL(error_string, nvmlErrorString);
EXPECT_SAME_CALL(driver_version, nvmlSystemGetDriverVersion);
EXPECT_SAME_CALL(cuda_version, nvmlSystemGetCudaDriverVersion_v2);
EXPECT_SAME_CALL(name, nvmlDeviceGetName);
EXPECT_SAME_CALL(pci_info, nvmlDeviceGetPciInfo_v3);
EXPECT_SAME_CALL(memory, nvmlDeviceGetMemoryInfo);
EXPECT_SAME_CALL(cpu_affinity, nvmlDeviceGetCpuAffinity);
EXPECT_SAME_CALL(memory_affinity, nvmlDeviceGetMemoryAffinity);
EXPECT_SAME_CALL(common_ancestor, nvmlDeviceGetTopologyCommonAncestor);
EXPECT_SAME_CALL(link_state, nvmlDeviceGetNvLinkState);
EXPECT_SAME_CALL(link_remote_type, nvmlDeviceGetNvLinkRemoteDeviceType);
EXPECT_SAME_CALL(link_remote_pci, nvmlDeviceGetNvLinkRemotePciInfo_v2);
EXPECT_SAME_CALL(clock, nvmlDeviceGetClockInfo);
EXPECT_SAME_CALL(max_clock, nvmlDeviceGetMaxClockInfo);
EXPECT_SAME_CALL(temperature, nvmlDeviceGetTemperatureV);
EXPECT_SAME_CALL(old_temperature, nvmlDeviceGetTemperature);
EXPECT_SAME_CALL(power, nvmlDeviceGetPowerUsage);
EXPECT_SAME_CALL(power_limit, nvmlDeviceGetEnforcedPowerLimit);
EXPECT_SAME_CALL(clock_reasons, nvmlDeviceGetCurrentClocksEventReasons);
EXPECT_SAME_CALL(clock_reasons, nvmlDeviceGetCurrentClocksThrottleReasons);
EXPECT_SAME_CALL(utilization, nvmlDeviceGetUtilizationRates);

#define EXPECT_SAME_PLACE(Ours, ours, Theirs, theirs)                                                   \
  static_assert(                                                                                        \
      offsetof(Ours, ours) == offsetof(Theirs, theirs) && sizeof(Ours::ours) == sizeof(Theirs::theirs), \
      #theirs)

static_assert(sizeof(PciInfo) == sizeof(nvmlPciInfo_t));
EXPECT_SAME_PLACE(PciInfo, bus_id_legacy, nvmlPciInfo_t, busIdLegacy);
EXPECT_SAME_PLACE(PciInfo, domain, nvmlPciInfo_t, domain);
EXPECT_SAME_PLACE(PciInfo, bus, nvmlPciInfo_t, bus);
EXPECT_SAME_PLACE(PciInfo, device, nvmlPciInfo_t, device);
EXPECT_SAME_PLACE(PciInfo, pci_device_id, nvmlPciInfo_t, pciDeviceId);
EXPECT_SAME_PLACE(PciInfo, pci_subsystem_id, nvmlPciInfo_t, pciSubSystemId);
EXPECT_SAME_PLACE(PciInfo, bus_id, nvmlPciInfo_t, busId);
static_assert(sizeof(Memory) == sizeof(nvmlMemory_t));
EXPECT_SAME_PLACE(Memory, total, nvmlMemory_t, total);
EXPECT_SAME_PLACE(Memory, free, nvmlMemory_t, free);
EXPECT_SAME_PLACE(Memory, used, nvmlMemory_t, used);
static_assert(sizeof(Utilization) == sizeof(nvmlUtilization_t));
EXPECT_SAME_PLACE(Utilization, gpu, nvmlUtilization_t, gpu);
EXPECT_SAME_PLACE(Utilization, memory, nvmlUtilization_t, memory);
static_assert(sizeof(Temperature) == sizeof(nvmlTemperature_t));
EXPECT_SAME_PLACE(Temperature, version, nvmlTemperature_t, version);
EXPECT_SAME_PLACE(Temperature, sensor, nvmlTemperature_t, sensorType);
EXPECT_SAME_PLACE(Temperature, celsius, nvmlTemperature_t, temperature);

static_assert(kSuccess == NVML_SUCCESS);
static_assert(kNameBytes == NVML_DEVICE_NAME_V2_BUFFER_SIZE);
static_assert(kVersionBytes == NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);
static_assert(kMostLinks == NVML_NVLINK_MAX_LINKS);
static_assert(kTemperatureVersion == nvmlTemperature_v1);
static_assert(kGpuSensor == NVML_TEMPERATURE_GPU);
static_assert(kSmClock == NVML_CLOCK_SM);
static_assert(kMemoryClock == NVML_CLOCK_MEM);
static_assert(kTopologyInternal == NVML_TOPOLOGY_INTERNAL);
static_assert(kTopologySingle == NVML_TOPOLOGY_SINGLE);
static_assert(kTopologyMultiple == NVML_TOPOLOGY_MULTIPLE);
static_assert(kTopologyHostBridge == NVML_TOPOLOGY_HOSTBRIDGE);
static_assert(kTopologyNode == NVML_TOPOLOGY_NODE);
static_assert(kTopologySystem == NVML_TOPOLOGY_SYSTEM);
static_assert(kEnabled == NVML_FEATURE_ENABLED);
static_assert(kLinkToGpu == NVML_NVLINK_DEVICE_TYPE_GPU);
static_assert(kLinkToSwitch == NVML_NVLINK_DEVICE_TYPE_SWITCH);
static_assert(kScopeNode == NVML_AFFINITY_SCOPE_NODE);
static_assert(kReasonIdle == nvmlClocksEventReasonGpuIdle);
static_assert(kReasonApplicationClocks == nvmlClocksEventReasonApplicationsClocksSetting);
static_assert(kReasonPowerCap == nvmlClocksEventReasonSwPowerCap);
static_assert(kReasonHardwareSlowdown == nvmlClocksThrottleReasonHwSlowdown);
static_assert(kReasonSyncBoost == nvmlClocksEventReasonSyncBoost);
static_assert(kReasonSoftwareThermal == nvmlClocksEventReasonSwThermalSlowdown);
static_assert(kReasonHardwareThermal == nvmlClocksThrottleReasonHwThermalSlowdown);
static_assert(kReasonPowerBrake == nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
static_assert(kReasonDisplayClock == nvmlClocksEventReasonDisplayClockSetting);

}  // namespace
}  // namespace lockstep::topology::nvml

#endif
