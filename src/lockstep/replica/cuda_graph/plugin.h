#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/replica/accelerator.h"

namespace lockstep::replica {

constexpr uint32_t kCudaGraphPluginAbiVersion = 1;

/// The functions of the plugin lockstep_cuda_graph.so: LibTorch's CUDAGraph, which coordinates a graph with
/// LibTorch's allocator and random numbers, and needs libtorch_cuda at link time.
struct CudaGraphPluginV1 {
  uint32_t abi_version;
  /// Runs `work` while the calling thread's current stream, which must not be the default one, is recorded.
  /// launch() enqueues the graph in the stream that is current at that time. Throws Error if CUDA cannot
  /// record it; exceptions of `work` are passed on. The stream stays usable in both cases. The caller owns
  /// the graph, which must not be destroyed while it runs.
  RecordedWork* (*record)(const std::function<void()>& work);
};

}  // namespace lockstep::replica
