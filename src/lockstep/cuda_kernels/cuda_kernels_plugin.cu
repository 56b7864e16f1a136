// The kernels on a GPU. Everything that computes is in the headers, which the host compiles as well.

#include <string>

#include <cuda_runtime_api.h>

#include "lockstep/base/error.h"
#include "lockstep/cuda_kernels/launches.h"
#include "lockstep/cuda_kernels/plugin.h"

namespace {

using namespace lockstep::cuda_kernels;

void check_cuda(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw lockstep::Error(std::string(call) + ": " + cudaGetErrorString(result) + " (" +
                        cudaGetErrorName(result) + ")");
}

/// Queried at every launch; CUDA answers from memory.
int current_processors() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  int processors = 0;
  check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  return processors;
}

template <typename Kernel>
__global__ void __launch_bounds__(kThreads, Kernel::kBlocksPerProcessor)
    run_kernel(const __grid_constant__ Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  kernel(static_cast<int>(blockIdx.x), shared);
}

/// Launches into one stream, in which a kernel begins when the one before it is done.
class StreamLauncher {
 public:
  explicit StreamLauncher(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  int processors() const { return processors_; }

  template <typename Kernel>
  void run(const Kernel& kernel, int blocks) const {
    run_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_>>>(kernel);
    check_cuda(cudaGetLastError(), "a kernel's launch");
  }

 private:
  cudaStream_t stream_;
  int processors_ = current_processors();
};

template <typename Operation, void (*operate)(const Operation&, StreamLauncher&)>
void enqueue(const Operation& operation, void* stream) {
  StreamLauncher launcher(stream);
  operate(operation, launcher);
}

int64_t workspace_bytes_here(Shape shape) {
  return norm_workspace_bytes(shape, current_processors());
}

constexpr KernelsPluginV1 kPlugin = {kKernelsAbiVersion, workspace_bytes_here,
                                     enqueue<NormForward, normalize<StreamLauncher>>,
                                     enqueue<NormBackward, normalize_backward<StreamLauncher>>};

}  // namespace

extern "C" __attribute__((visibility("default"))) const KernelsPluginV1* lockstep_cuda_kernels_plugin() {
  return &kPlugin;
}
