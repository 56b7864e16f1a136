#include <string>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include "lockstep/base/error.h"
#include "lockstep/replica/cuda_graph/plugin.h"

namespace {

using lockstep::replica::RecordedWork;

[[noreturn]] void throw_not_recorded(const c10::Error& error) {
  throw lockstep::Error(
      std::string("the step cannot be recorded in a CUDA graph: ") + error.what_without_backtrace(),
      "Leave out --cuda-graph.");
}

class CudaGraph final : public RecordedWork {
 public:
  explicit CudaGraph(const std::function<void()>& work)
      : pool_(at::cuda::graph_pool_handle()), device_(c10::cuda::current_device()) {
    begin();
    try {
      work();
    } catch (...) {
      abandon();
      throw;
    }
    end();
  }

  void launch() override {
    try {
      graph_.replay();
    } catch (const c10::Error& error) {
      throw lockstep::Error(std::string("a CUDA graph cannot be launched: ") +
                            error.what_without_backtrace());
    }
  }

 private:
  void begin() {
    try {
      // Restricts this thread only. NCCL's threads do not capture, and may do things that a capture forbids.
      graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    } catch (const c10::Error& error) {
      give_pool_back();
      throw_not_recorded(error);
    }
  }

  void end() {
    try {
      graph_.capture_end();
    } catch (const c10::Error& error) {
      give_pool_back();
      throw_not_recorded(error);
    }
  }

  /// Ends the capture, and with it the stream's special state, after an exception of the recorded work.
  void abandon() noexcept {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
      give_pool_back();
    }
  }

  /// Undoes the redirection of LibTorch's allocators to the graph's pool, which LibTorch leaves in place if a
  /// capture fails. An allocator that was not redirected, or no longer is, throws; that is ignored.
  void give_pool_back() noexcept {
    try {
      at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool_);
      at::getHostAllocator(at::kCUDA)->release_pool(pool_);
    } catch (const c10::Error&) {
    }
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device_, pool_);
      c10::cuda::CUDACachingAllocator::releasePool(device_, pool_);
    } catch (const c10::Error&) {
    }
  }

  /// Created here and not by CUDAGraph, so that it can be released after a failure.
  c10::MempoolId_t pool_;
  c10::DeviceIndex device_;
  at::cuda::CUDAGraph graph_;
};

RecordedWork* record(const std::function<void()>& work) {
  return new CudaGraph(work);
}

constexpr lockstep::replica::CudaGraphPluginV1 kPlugin = {lockstep::replica::kCudaGraphPluginAbiVersion,
                                                          record};

}  // namespace

extern "C" [[gnu::visibility("default")]] const lockstep::replica::CudaGraphPluginV1*
lockstep_cuda_graph_plugin() {
  return &kPlugin;
}
