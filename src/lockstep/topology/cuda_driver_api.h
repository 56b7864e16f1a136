#pragma once

#include <cstddef>

#include "lockstep/topology/driver_function.h"

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
