// A stand-in for libnvidia-ml.so.1, for machines without NVIDIA's driver: what opening it, asking it and its
// failures lead to is tested with this one. Built from lockstep's own declarations, so it says nothing about
// whether these are NVIDIA's (nvml_header_test.cpp does). LOCKSTEP_FAKE_NVML chooses what it plays:
//   dgx1       eight GPUs, NVLinks in the cube mesh of a DGX-1
//   switches   four GPUs with 18 links each into NVSwitches that the machine does not show
//   pcie       the GPUs of dgx1 without NVLinks
//   bare       one GPU whose driver tells nothing but that it is there
//   no_driver  the library without a driver
//   hidden     two GPUs, of which this process may talk to the second
//   slowing    one GPU that is slower, and hot, every time that it is asked again

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "lockstep/topology/driver_api.h"

namespace {

using namespace lockstep::topology::nvml;

constexpr Return kInvalidArgument = 2;
constexpr Return kUnsupported = 3;
constexpr Return kNotPermitted = 4;
constexpr Return kNoDriver = 9;

bool plays(std::string_view name) {
  const char* chosen = std::getenv("LOCKSTEP_FAKE_NVML");
  return chosen != nullptr && chosen == name;
}

/// links[a][b] of a DGX-1.
constexpr int kCubeMesh[8][8] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
                                 {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                                 {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};

// A handle is the index plus one.
Device handle_of(unsigned index) {
  return reinterpret_cast<Device>(static_cast<size_t>(index) + 1);
}
unsigned index_of(Device device) {
  return static_cast<unsigned>(reinterpret_cast<size_t>(device) - 1);
}

/// The GPU at the other end of a link; -1: none.
int peer_of(unsigned gpu, unsigned link) {
  for (int peer = 0; peer < 8; ++peer) {
    for (int i = 0; i < kCubeMesh[gpu][peer]; ++i) {
      if (link-- == 0) return peer;
    }
  }
  return -1;
}

Return write_bus_id(PciInfo* info, unsigned index) {
  std::memset(info, 0, sizeof *info);
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", 0x60 + index);
  return kSuccess;
}

Return write_text(char* text, unsigned bytes, const char* value) {
  std::snprintf(text, bytes, "%s", value);
  return kSuccess;
}

/// How often the clock was asked for before.
unsigned times_asked = 0;

Return tells(unsigned* value, unsigned what) {
  if (plays("bare")) return kUnsupported;
  *value = what;
  return kSuccess;
}

}  // namespace

extern "C" {

Return nvmlInit_v2() {
  return plays("no_driver") ? kNoDriver : kSuccess;
}
Return nvmlShutdown() {
  return kSuccess;
}
const char* nvmlErrorString(Return result) {
  return result == kNoDriver ? "Driver Not Loaded" : "another error";
}
Return nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  return write_text(text, bytes, "580.65.06");
}
Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13010;
  return kSuccess;
}
Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = plays("bare") || plays("slowing") ? 1 : plays("hidden") ? 2 : plays("switches") ? 4 : 8;
  return kSuccess;
}
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (plays("hidden") && index == 0) return kNotPermitted;
  *device = handle_of(index);
  return kSuccess;
}
Return nvmlDeviceGetName(Device, char* text, unsigned bytes) {
  return plays("bare") ? kUnsupported : write_text(text, bytes, "Tesla V100-SXM2-16GB");
}
Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  return plays("bare") ? kUnsupported : write_bus_id(info, index_of(device));
}
Return nvmlDeviceGetMemoryInfo(Device, Memory* memory) {
  if (plays("bare")) return kUnsupported;
  *memory = {.total = 1ULL << 34, .free = 3ULL << 32, .used = 1ULL << 32};
  return kSuccess;
}
Return nvmlDeviceGetCpuAffinity(Device device, unsigned words, unsigned long* mask) {
  if (plays("bare")) return kUnsupported;
  std::memset(mask, 0, words * sizeof *mask);
  // 0-19,40-59 and 20-39,60-79.
  const bool first = index_of(device) < 4;
  mask[0] = first ? 0x0fffff00000fffffUL : 0xf00000fffff00000UL;
  mask[1] = first ? 0 : 0xffff;
  return kSuccess;
}
Return nvmlDeviceGetMemoryAffinity(Device device, unsigned words, unsigned long* mask, unsigned scope) {
  if (plays("bare")) return kUnsupported;
  if (scope != kScopeNode) return kInvalidArgument;
  std::memset(mask, 0, words * sizeof *mask);
  mask[0] = index_of(device) < 4 ? 1 : 2;
  return kSuccess;
}
Return nvmlDeviceGetTopologyCommonAncestor(Device one, Device other, int* level) {
  if (plays("bare")) return kUnsupported;
  const unsigned a = index_of(one), b = index_of(other);
  *level = a / 2 == b / 2 ? kTopologySingle : a / 4 == b / 4 ? kTopologyHostBridge : kTopologySystem;
  return kSuccess;
}
Return nvmlDeviceGetNvLinkState(Device device, unsigned link, int* state) {
  if (plays("bare")) return kUnsupported;
  if (plays("dgx1") && link >= 6) return kInvalidArgument;
  const bool up = plays("switches") || (plays("dgx1") && peer_of(index_of(device), link) >= 0);
  *state = up ? kEnabled : 0;
  return kSuccess;
}
Return nvmlDeviceGetNvLinkRemoteDeviceType(Device, unsigned, int* type) {
  // As a driver that does not have it yet: the hidden address must do.
  if (plays("switches")) return kUnsupported;
  *type = kLinkToGpu;
  return kSuccess;
}
Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciInfo* info) {
  if (plays("switches")) return write_text(info->bus_id, sizeof info->bus_id, "FFFFFFFF:FFFF:FF.0");
  return write_bus_id(info, static_cast<unsigned>(peer_of(index_of(device), link)));
}
Return nvmlDeviceGetClockInfo(Device, int type, unsigned* mhz) {
  if (plays("slowing") && type == kSmClock) return tells(mhz, 1980 - 30 * times_asked++);
  return tells(mhz, type == kSmClock ? 1290 : type == kMemoryClock ? 877 : 0);
}
Return nvmlDeviceGetMaxClockInfo(Device, int, unsigned* mhz) {
  return tells(mhz, plays("slowing") ? 1980 : 1530);
}
Return nvmlDeviceGetTemperatureV(Device, Temperature* temperature) {
  if (plays("bare")) return kUnsupported;
  if (temperature->version != kTemperatureVersion || temperature->sensor != kGpuSensor)
    return kInvalidArgument;
  temperature->celsius = 71;
  return kSuccess;
}
Return nvmlDeviceGetTemperature(Device, int, unsigned* celsius) {
  // Only asked where the newer function does not answer.
  *celsius = 45;
  return kSuccess;
}
Return nvmlDeviceGetPowerUsage(Device, unsigned* milliwatt) {
  return tells(milliwatt, 299500);
}
Return nvmlDeviceGetEnforcedPowerLimit(Device, unsigned* milliwatt) {
  return tells(milliwatt, 300000);
}
Return nvmlDeviceGetCurrentClocksEventReasons(Device, unsigned long long* bits) {
  if (plays("bare")) return kUnsupported;
  *bits = kReasonPowerCap | kReasonSoftwareThermal;
  // Every sample asks for the clock first.
  if (plays("slowing")) *bits = times_asked > 1 ? kReasonHardwareThermal : kReasonIdle;
  return kSuccess;
}
Return nvmlDeviceGetUtilizationRates(Device, Utilization* utilization) {
  if (plays("bare")) return kUnsupported;
  *utilization = {.gpu = 98, .memory = 40};
  return kSuccess;
}

}  // extern "C"
