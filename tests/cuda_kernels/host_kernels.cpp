#include "cuda_kernels/host_kernels.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lockstep/cuda_kernels/launches.h"

namespace lockstep::cuda_kernels {
namespace {

thread_local HostGpu host_gpu;

class HostLauncher {
 public:
  int processors() const { return host_gpu.processors; }

  template <typename Kernel>
  void run(const Kernel& kernel, int blocks) const {
    std::vector<int> order(static_cast<size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    if (host_gpu.shuffle != 0) std::shuffle(order.begin(), order.end(), std::mt19937(host_gpu.shuffle));
    reverse_host_threads = host_gpu.reverse_threads;
    const auto shared = std::make_unique<typename Kernel::Shared>();
    for (const int block : order) {
      // A GPU's shared memory begins with anything.
      std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(typename Kernel::Shared));
      kernel(block, *shared);
    }
    if (std::exchange(misaligned_host_accesses, 0) != 0) {
      throw std::logic_error("a kernel accesses 16 bytes at an address that is no multiple of 16");
    }
  }
};

template <typename Operation, void (*operate)(const Operation&, HostLauncher&)>
void perform(const Operation& operation, void* /*stream*/) {
  HostLauncher launcher;
  operate(operation, launcher);
}

int64_t workspace_bytes_here(Shape shape) {
  return norm_workspace_bytes(shape, host_gpu.processors);
}

constexpr KernelsPluginV1 kTable = {kKernelsAbiVersion, workspace_bytes_here,
                                    perform<NormForward, normalize<HostLauncher>>,
                                    perform<NormBackward, normalize_backward<HostLauncher>>};

}  // namespace

void set_host_gpu(const HostGpu& gpu) {
  host_gpu = gpu;
}

const KernelsPluginV1& host_kernels() {
  return kTable;
}

}  // namespace lockstep::cuda_kernels
