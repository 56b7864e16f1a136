#pragma once

#include <filesystem>
#include <string>

#include "lockstep/replica/cuda_graph/plugin.h"

namespace lockstep::replica {

/// LibTorch's CUDA library. The program does not link it, but opens it when a GPU is requested, so that the
/// same program runs with a LibTorch for CPUs only.
struct TorchCuda {
  int gpus = 0;
  /// "LibTorch 2.11.0 with CUDA 13.0, cuDNN 9.19.0".
  std::string versions;
};

/// The folder of the LibTorch that this process uses.
std::filesystem::path torch_library_folder();

/// Opens libtorch_cuda.so in `folder`; it is never closed. Throws BackendMissing if it or one of its
/// libraries is missing.
void open_torch_cuda_of(const std::filesystem::path& folder);

/// Opens it once per process and counts the GPUs. Thread-safe. Must come before any question to LibTorch
/// about CUDA and before the first backward pass, when LibTorch fixes its set of devices. Throws
/// BackendMissing, which says what is missing: the library, one of its dependencies, a driver, a driver that
/// is new enough, or a GPU.
const TorchCuda& torch_cuda();

/// Opens the plugin lockstep_cuda_graph.so once per process; it is never closed. Call after torch_cuda().
/// Thread-safe. Throws BackendMissing, which says what to install.
const CudaGraphPluginV1& open_cuda_graph();

}  // namespace lockstep::replica
