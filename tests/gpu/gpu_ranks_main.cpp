#include <cstdlib>
#include <iostream>
#include <string>

#include <cuda_runtime_api.h>

#include "comm/rank_world.h"
#include "gpu/gpu_memory_view.h"

namespace {

/// Exit code that ctest and tests/gpu/run take for "skipped".
constexpr int kSkipped = 77;

}  // namespace

/// The backends' tests with all data in memory of a GPU. NCCL's ranks have a GPU each; the others share those
/// that there are.
int main(int argc, char** argv) {
  using namespace lockstep::comm;
  int gpus = 0;
  const cudaError_t found = cudaGetDeviceCount(&gpus);
  std::string backend;
  int ranks = 0;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--backend") backend = argv[i + 1];
    if (std::string(argv[i]) == "--ranks") ranks = std::atoi(argv[i + 1]);
  }
  if (found != cudaSuccess || gpus == 0) {
    std::cout << "skipped: no GPU (" << cudaGetErrorString(found) << ")\n";
    return kSkipped;
  }
  if (backend == "nccl" && ranks > gpus) {
    std::cout << "skipped: NCCL's " << ranks << " ranks need as many GPUs, and there are " << gpus << "\n";
    return kSkipped;
  }
  return run_as_ranks(argc, argv, [gpus](const std::string& name, ConnectOptions options) {
    options.cuda_device = options.rank % gpus;
    const int device = options.cuda_device;
    return std::make_unique<GpuMemoryView>(connect(name, options), device);
  });
}
