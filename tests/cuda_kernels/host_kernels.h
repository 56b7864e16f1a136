#pragma once

#include "lockstep/cuda_kernels/plugin.h"

namespace lockstep::cuda_kernels {

/// How the host plays a GPU.
struct HostGpu {
  int processors = 3;
  /// Seed of the order in which blocks run; 0: by number.
  unsigned shuffle = 0;
  /// Whether a block's threads run from the last to the first.
  bool reverse_threads = false;
};

/// For the calling thread, from now on.
void set_host_gpu(const HostGpu& gpu);

/// The plugin's table over the host's memory: the same kernels, a block after the other, at once. Streams
/// are ignored.
const KernelsPluginV1& host_kernels();

}  // namespace lockstep::cuda_kernels
