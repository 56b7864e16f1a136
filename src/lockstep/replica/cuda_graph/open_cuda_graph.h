#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/replica/accelerator.h"

namespace lockstep::replica {

constexpr uint32_t kCudaGraphPluginAbiVersion = 1;

/// What the plugin lockstep_cuda_graph.so offers: LibTorch's CUDAGraph, which knows what LibTorch's allocator
/// and random numbers have to do with a graph, and can only be had with libtorch_cuda.
struct CudaGraphPluginV1 {
  uint32_t abi_version;
  /// Runs `work` while the calling thread's current stream is recorded; that stream must not be the default
  /// one. launch() puts the graph into the stream that is current then. Throws Error where CUDA cannot record
  /// it; what `work` throws comes out as it is. Either way the stream is as usable as before. The caller owns
  /// the graph, which must not be destroyed while it runs.
  RecordedWork* (*record)(const std::function<void()>& work);
};

/// The plugin's one symbol, `lockstep_cuda_graph_plugin`.
using CudaGraphPluginEntry = const CudaGraphPluginV1* (*)();

/// The plugin, which is opened once per process and never closed; after torch_cuda(). Thread-safe. Throws
/// BackendMissing, which says what to do.
const CudaGraphPluginV1& open_cuda_graph();

}  // namespace lockstep::replica
