#pragma once

#include <cstddef>

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

/// Pointers to the library's functions; all but the first four are null if the installed driver lacks them.
struct Functions {
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  Return (*count)(unsigned* count) = nullptr;
  Return (*handle)(unsigned index, Device* device) = nullptr;

  const char* (*error_string)(Return result) = nullptr;
  Return (*driver_version)(char* text, unsigned bytes) = nullptr;
  Return (*cuda_version)(int* version) = nullptr;
  Return (*name)(Device, char* text, unsigned bytes) = nullptr;
  Return (*pci_info)(Device, PciInfo* info) = nullptr;
  Return (*memory)(Device, Memory* memory) = nullptr;
  Return (*cpu_affinity)(Device, unsigned words, unsigned long* mask) = nullptr;
  Return (*memory_affinity)(Device, unsigned words, unsigned long* mask, unsigned scope) = nullptr;
  Return (*common_ancestor)(Device, Device other, int* level) = nullptr;
  Return (*link_state)(Device, unsigned link, int* state) = nullptr;
  Return (*link_remote_type)(Device, unsigned link, int* type) = nullptr;
  Return (*link_remote_pci)(Device, unsigned link, PciInfo* info) = nullptr;

  Return (*clock)(Device, int type, unsigned* mhz) = nullptr;
  Return (*max_clock)(Device, int type, unsigned* mhz) = nullptr;
  Return (*temperature)(Device, Temperature* temperature) = nullptr;
  Return (*old_temperature)(Device, int sensor, unsigned* celsius) = nullptr;
  Return (*power)(Device, unsigned* milliwatt) = nullptr;
  Return (*power_limit)(Device, unsigned* milliwatt) = nullptr;
  Return (*clock_reasons)(Device, unsigned long long* bits) = nullptr;
  Return (*utilization)(Device, Utilization* utilization) = nullptr;
};

/// Calls a function that the installed driver may lack; whether it is there and succeeds.
template <typename... Parameters, typename... Arguments>
bool ok(Return (*function)(Parameters...), Arguments... arguments) {
  return function != nullptr && function(arguments...) == kSuccess;
}

}  // namespace lockstep::topology::nvml
