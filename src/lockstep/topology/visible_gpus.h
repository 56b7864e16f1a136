#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::topology {

/// A GPU that a process may compute on. Empty or 0: unknown to the driver.
struct VisibleGpu {
  /// "NVIDIA H200".
  std::string name;
  /// "0000:06:00.0", the key for Nvml::index_of.
  std::string pci_bus_id;
  /// Unique among all GPUs, and among the slices (MIG) of one GPU.
  std::string uuid;
  int64_t memory_bytes = 0;
};

/// The GPUs that this process may compute on, in the order of CUDA's numbers, which need not be NVML's: those
/// that CUDA_VISIBLE_DEVICES leaves, in the order of CUDA_DEVICE_ORDER. Asks the driver's own library and
/// makes no context, so that no memory of a GPU is taken. Empty without a driver or a GPU. Never throws.
std::vector<VisibleGpu> visible_gpus(const std::string& library = "libcuda.so.1");

}  // namespace lockstep::topology
