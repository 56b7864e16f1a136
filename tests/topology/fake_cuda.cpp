// A stand-in for libcuda.so.1, for machines without NVIDIA's driver, built from lockstep's own declarations
// (cuda_header_test.cpp says whether these are NVIDIA's). LOCKSTEP_FAKE_CUDA chooses what it plays:
//   two        two GPUs that tell all
//   bare       one GPU that tells nothing but that it is there
//   none       a driver that finds no GPU
//   old        a driver for CUDA 12.4, as far as CUDA's runtime asks one before it gives up

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "lockstep/topology/driver_api.h"

namespace {

using namespace lockstep::topology::cuda_driver;

constexpr Result kNoDevice = 100;
constexpr Result kUnsupported = 801;
constexpr Result kNotFound = 500;
// CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
constexpr int kSymbolNotFound = 1;
constexpr int kOldDriver = 12040;

bool plays(std::string_view name) {
  const char* chosen = std::getenv("LOCKSTEP_FAKE_CUDA");
  return chosen != nullptr && chosen == name;
}

// Any function that the runtime has no use for once it knows the version.
Result refuse() {
  return kUnsupported;
}

// A handle is the number plus ten.
int number_of(Device device) {
  return device - 10;
}

}  // namespace

extern "C" {

Result cuInit(unsigned flags) {
  return flags == 0 && !plays("none") ? kSuccess : kNoDevice;
}
Result cuDeviceGetCount(int* count) {
  *count = plays("two") ? 2 : 1;
  return kSuccess;
}
Result cuDeviceGet(Device* device, int number) {
  *device = number + 10;
  return kSuccess;
}
Result cuDeviceGetName(char* text, int bytes, Device device) {
  if (plays("bare")) return kUnsupported;
  std::snprintf(text, static_cast<size_t>(bytes), "NVIDIA Test %d", number_of(device));
  return kSuccess;
}
Result cuDeviceGetPCIBusId(char* text, int bytes, Device device) {
  if (plays("bare")) return kUnsupported;
  // Not in the order of the bus, as CUDA's own default is not.
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0", 0x6B - number_of(device));
  return kSuccess;
}
Result cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  if (plays("bare")) return kUnsupported;
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(0xF0 + i);
  uuid->bytes[15] = static_cast<char>(number_of(device));
  return kSuccess;
}
Result cuDeviceTotalMem_v2(size_t* bytes, Device device) {
  if (plays("bare")) return kUnsupported;
  *bytes = (size_t{1} << 34) + static_cast<size_t>(number_of(device));
  return kSuccess;
}

// How CUDA's runtime, newer than this driver, finds out about it.
Result cuDriverGetVersion(int* version) {
  *version = kOldDriver;
  return plays("old") ? kSuccess : kUnsupported;
}
Result cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t /*flags*/, int* status) {
  if (!plays("old") || version > kOldDriver) {
    if (status != nullptr) *status = kSymbolNotFound;
    return kNotFound;
  }
  if (status != nullptr) *status = 0;
  const std::string_view wanted = name;
  if (wanted == "cuInit") {
    *function = reinterpret_cast<void*>(&cuInit);
  } else if (wanted == "cuDriverGetVersion") {
    *function = reinterpret_cast<void*>(&cuDriverGetVersion);
  } else if (wanted == "cuGetProcAddress") {
    *function = reinterpret_cast<void*>(&cuGetProcAddress_v2);
  } else {
    *function = reinterpret_cast<void*>(&refuse);
  }
  return kSuccess;
}
Result cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

}  // extern "C"
