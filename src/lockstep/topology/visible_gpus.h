#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::topology {

/// A GPU that a process may compute on. Empty and 0: the driver does not tell.
struct VisibleGpu {
  /// "NVIDIA H200".
  std::string name;
  /// "0000:06:00.0": what Nvml::index_of finds it by.
  std::string pci_bus_id;
  /// Tells it apart from all others, and a slice of a GPU (MIG) from the others of that GPU.
  std::string uuid;
  int64_t memory_bytes = 0;
};

/// The GPUs that this process may compute on by the numbers that CUDA gives them, which need not be NVML's:
/// what CUDA_VISIBLE_DEVICES leaves, in the order of CUDA_DEVICE_ORDER. Asks the driver's own library, opened
/// where there is one, and makes no context, so that nothing is taken of a GPU's memory. Empty without driver
/// or GPU. Never throws.
std::vector<VisibleGpu> visible_gpus(const std::string& library = "libcuda.so.1");

}  // namespace lockstep::topology
