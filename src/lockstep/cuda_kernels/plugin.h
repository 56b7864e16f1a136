#pragma once

#include <cstdint>

#include "lockstep/cuda_kernels/operations.h"

namespace lockstep::cuda_kernels {

constexpr uint32_t kKernelsAbiVersion = 2;

/// The functions of the plugin lockstep_cuda_kernels.so. Each enqueues its kernels in `stream` (a
/// cudaStream_t) of the calling thread's current GPU, never waits, and may be recorded in a CUDA graph.
/// Thread-safe. They throw Error if CUDA refuses a launch.
struct KernelsPluginV1 {
  uint32_t abi_version;
  /// Bytes of a workspace for images of this shape on the current GPU.
  int64_t (*norm_workspace_bytes)(Shape shape);
  void (*normalize)(const NormForward& norm, void* stream);
  void (*normalize_backward)(const NormBackward& norm, void* stream);
};

/// Opens the plugin once per process; it is never closed. Needs no GPU. Thread-safe. Throws BackendMissing,
/// which says what to install.
const KernelsPluginV1& open_kernels();

}  // namespace lockstep::cuda_kernels
