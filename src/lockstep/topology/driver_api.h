#pragma once

#include <cstddef>

#include <dlfcn.h>

namespace lockstep::topology {

/// A function of one of the libraries that come with NVIDIA's driver, which the installed version may lack.
template <typename Function>
struct DriverFunction {
  /// `library`: of dlopen(); null: there is none. `older_name`: of the same function in older drivers.
  DriverFunction(void* library, const char* name, const char* older_name = nullptr) {
    if (library != nullptr) pointer = reinterpret_cast<Function*>(::dlsym(library, name));
    if (library != nullptr && pointer == nullptr && older_name != nullptr)
      pointer = reinterpret_cast<Function*>(::dlsym(library, older_name));
  }

  /// Calls the function; whether it is there and returns 0, which is success in all of these libraries.
  template <typename... Arguments>
  bool succeeds(Arguments... arguments) const {
    return pointer != nullptr && pointer(arguments...) == 0;
  }

  Function* pointer = nullptr;
};

}  // namespace lockstep::topology

// The part of CUDA's driver library (libcuda.so.1) that lockstep calls itself, declared here because its
// header comes with a toolkit that need not be installed to build. Names and layouts are those
// of NVIDIA's cuda.h of CUDA 13.0 ("CUDA Driver API", docs.nvidia.com/cuda/cuda-driver-api);
// tests/topology/cuda_header_test.cpp compares them with that header where there is one.

namespace lockstep::topology::cuda_driver {

/// CUresult, passed as int.
using Result = int;
constexpr Result kSuccess = 0;

/// CUdevice.
using Device = int;

/// CUuuid.
struct Uuid {
  char bytes[16];
};

/// The functions of an opened library; those that the installed driver lacks have a null pointer.
struct Functions {
  void* library = nullptr;

  DriverFunction<Result(unsigned flags)> init{library, "cuInit"};
  DriverFunction<Result(int* count)> count{library, "cuDeviceGetCount"};
  DriverFunction<Result(Device* device, int number)> get{library, "cuDeviceGet"};
  DriverFunction<Result(char* text, int bytes, Device device)> name{library, "cuDeviceGetName"};
  DriverFunction<Result(char* text, int bytes, Device device)> pci_bus_id{library, "cuDeviceGetPCIBusId"};
  DriverFunction<Result(Uuid* uuid, Device device)> uuid{library, "cuDeviceGetUuid_v2"};
  DriverFunction<Result(size_t* bytes, Device device)> memory{library, "cuDeviceTotalMem_v2"};
};

}  // namespace lockstep::topology::cuda_driver

// The part of NVIDIA's management library (libnvidia-ml.so.1) that lockstep calls, declared here because the
// library comes with the driver and its header with a toolkit that need not be there to build. Names and
// layouts are those of NVIDIA's nvml.h of CUDA 13.0 ("NVML API Reference Guide", docs.nvidia.com/deploy/
// nvml-api); tests/topology/nvml_header_test.cpp compares them with that header where there is one.

namespace lockstep::topology::nvml {

/// nvmlReturn_t. All of NVML's enumerations are passed as int.
using Return = int;
constexpr Return kSuccess = 0;

struct OpaqueDevice;
using Device = OpaqueDevice*;

constexpr size_t kNameBytes = 96;
constexpr size_t kVersionBytes = 80;
constexpr unsigned kMostLinks = 18;

/// nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3 and nvmlDeviceGetNvLinkRemotePciInfo_v2.
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

/// nvmlMemory_t of nvmlDeviceGetMemoryInfo; bytes.
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

/// nvmlUtilization_t; percent of the last sampling period.
struct Utilization {
  unsigned gpu;
  unsigned memory;
};

/// nvmlTemperature_v1_t of nvmlDeviceGetTemperatureV; version: its size, and 1 in the highest byte.
struct Temperature {
  unsigned version;
  int sensor;
  int celsius;
};
constexpr unsigned kTemperatureVersion = sizeof(Temperature) | 1U << 24U;
constexpr int kGpuSensor = 0;

/// nvmlClockType_t.
constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;

/// nvmlGpuTopologyLevel_t.
constexpr int kTopologyInternal = 0;
constexpr int kTopologySingle = 10;
constexpr int kTopologyMultiple = 20;
constexpr int kTopologyHostBridge = 30;
constexpr int kTopologyNode = 40;
constexpr int kTopologySystem = 50;

/// nvmlEnableState_t.
constexpr int kEnabled = 1;

/// nvmlIntNvLinkDeviceType_t.
constexpr int kLinkToGpu = 0;
constexpr int kLinkToSwitch = 2;

/// nvmlAffinityScope_t.
constexpr unsigned kScopeNode = 0;

/// Bits of nvmlDeviceGetCurrentClocksEventReasons (before CUDA 12.2: ...ClocksThrottleReasons).
constexpr unsigned long long kReasonIdle = 0x1;
constexpr unsigned long long kReasonApplicationClocks = 0x2;
constexpr unsigned long long kReasonPowerCap = 0x4;
constexpr unsigned long long kReasonHardwareSlowdown = 0x8;
constexpr unsigned long long kReasonSyncBoost = 0x10;
constexpr unsigned long long kReasonSoftwareThermal = 0x20;
constexpr unsigned long long kReasonHardwareThermal = 0x40;
constexpr unsigned long long kReasonPowerBrake = 0x80;
constexpr unsigned long long kReasonDisplayClock = 0x100;

/// The functions of an opened library; those that the installed driver lacks have a null pointer.
struct Functions {
  void* library = nullptr;

  DriverFunction<Return()> init{library, "nvmlInit_v2"};
  DriverFunction<Return()> shutdown{library, "nvmlShutdown"};
  DriverFunction<Return(unsigned* count)> count{library, "nvmlDeviceGetCount_v2"};
  DriverFunction<Return(unsigned index, Device* device)> handle{library, "nvmlDeviceGetHandleByIndex_v2"};

  DriverFunction<const char*(Return result)> error_string{library, "nvmlErrorString"};
  DriverFunction<Return(char* text, unsigned bytes)> driver_version{library, "nvmlSystemGetDriverVersion"};
  DriverFunction<Return(int* version)> cuda_version{library, "nvmlSystemGetCudaDriverVersion_v2"};
  DriverFunction<Return(Device, char* text, unsigned bytes)> name{library, "nvmlDeviceGetName"};
  DriverFunction<Return(Device, PciInfo* info)> pci_info{library, "nvmlDeviceGetPciInfo_v3"};
  DriverFunction<Return(Device, Memory* memory)> memory{library, "nvmlDeviceGetMemoryInfo"};
  DriverFunction<Return(Device, unsigned words, unsigned long* mask)> cpu_affinity{
      library, "nvmlDeviceGetCpuAffinity"};
  DriverFunction<Return(Device, unsigned words, unsigned long* mask, unsigned scope)> memory_affinity{
      library, "nvmlDeviceGetMemoryAffinity"};
  DriverFunction<Return(Device, Device other, int* level)> common_ancestor{
      library, "nvmlDeviceGetTopologyCommonAncestor"};
  DriverFunction<Return(Device, unsigned link, int* state)> link_state{library, "nvmlDeviceGetNvLinkState"};
  DriverFunction<Return(Device, unsigned link, int* type)> link_remote_type{
      library, "nvmlDeviceGetNvLinkRemoteDeviceType"};
  DriverFunction<Return(Device, unsigned link, PciInfo* info)> link_remote_pci{
      library, "nvmlDeviceGetNvLinkRemotePciInfo_v2"};

  DriverFunction<Return(Device, int type, unsigned* mhz)> clock{library, "nvmlDeviceGetClockInfo"};
  DriverFunction<Return(Device, int type, unsigned* mhz)> max_clock{library, "nvmlDeviceGetMaxClockInfo"};
  DriverFunction<Return(Device, Temperature* temperature)> temperature{library, "nvmlDeviceGetTemperatureV"};
  DriverFunction<Return(Device, int sensor, unsigned* celsius)> old_temperature{library,
                                                                                "nvmlDeviceGetTemperature"};
  DriverFunction<Return(Device, unsigned* milliwatt)> power{library, "nvmlDeviceGetPowerUsage"};
  DriverFunction<Return(Device, unsigned* milliwatt)> power_limit{library, "nvmlDeviceGetEnforcedPowerLimit"};
  DriverFunction<Return(Device, unsigned long long* bits)> clock_reasons{
      library, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"};
  DriverFunction<Return(Device, Utilization* utilization)> utilization{library,
                                                                       "nvmlDeviceGetUtilizationRates"};
};

}  // namespace lockstep::topology::nvml
