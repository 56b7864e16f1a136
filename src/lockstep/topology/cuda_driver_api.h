#pragma once

#include <cstddef>

// The part of CUDA's driver library (libcuda.so.1) that lockstep calls itself, declared here because it comes
// with the driver and its header with a toolkit that need not be there to build. Names and layouts are those
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

/// Pointers to the library's functions, null if the installed driver lacks them.
struct Functions {
  Result (*init)(unsigned flags) = nullptr;
  Result (*count)(int* count) = nullptr;
  Result (*get)(Device* device, int number) = nullptr;
  Result (*name)(char* text, int bytes, Device device) = nullptr;
  Result (*pci_bus_id)(char* text, int bytes, Device device) = nullptr;
  Result (*uuid)(Uuid* uuid, Device device) = nullptr;
  Result (*memory)(size_t* bytes, Device device) = nullptr;
};

/// Calls a function that the driver may lack; whether it is there and succeeds.
template <typename... Parameters, typename... Arguments>
bool succeeds(Result (*function)(Parameters...), Arguments... arguments) {
  return function != nullptr && function(arguments...) == kSuccess;
}

}  // namespace lockstep::topology::cuda_driver
