#include "lockstep/comm/cuda/cuda_check.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/no_gpu.h"

namespace lockstep::comm {
namespace {

[[noreturn]] void throw_no_gpu(cudaError_t result) {
  NoGpu found{.reason = fmt::format("{}: {}", cudaGetErrorName(result), cudaGetErrorString(result)),
              .driver_too_old = result == cudaErrorInsufficientDriver,
              .runtime_of = "this lockstep"};
  // Both calls work without a driver or a GPU; a missing driver has version 0.
  cudaDriverGetVersion(&found.driver_version);
  cudaRuntimeGetVersion(&found.runtime_version);
  lockstep::throw_no_gpu(found);
}

}  // namespace

void check_cuda(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw CommError(fmt::format("{}: {} ({})", call, cudaGetErrorString(result), cudaGetErrorName(result)));
}

int count_gpus() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  // No GPU and no error is reported like CUDA's own error for it.
  if (result != cudaSuccess || count == 0) throw_no_gpu(result == cudaSuccess ? cudaErrorNoDevice : result);
  return count;
}

void check_gpu(int device, const char* needed_by) {
  const int count = count_gpus();
  if (device < 0) {
    throw ConfigError(fmt::format("{} needs a GPU for every rank, but this rank has none", needed_by),
                      "ask for a GPU with --device cuda");
  }
  if (device >= count) {
    throw ConfigError(fmt::format("{} should use GPU {}, but this process sees {} (numbered from 0)",
                                  needed_by, device, count),
                      "start at most as many ranks on a host as it has GPUs");
  }
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void enter_gpu(int device) {
  int current = -1;
  check_cuda(cudaGetDevice(&current), "cudaGetDevice");
  // Asked first: the question costs less than setting the device again.
  if (current != device) check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

CaptureExempt::CaptureExempt() noexcept {
  cudaThreadExchangeStreamCaptureMode(&before_);
}

CaptureExempt::~CaptureExempt() {
  cudaThreadExchangeStreamCaptureMode(&before_);
}

CudaEvent::CudaEvent(int device) {
  enter_gpu(device);
  // Without a time stamp recording is cheaper; blocking, so that a waiting thread sleeps.
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
             "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() {
  cudaEventDestroy(event_);
}

void CudaEvent::record(cudaStream_t stream) {
  check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
}

// Not CaptureExempt: in a stream that is being captured the wait becomes an edge of the graph.
void CudaEvent::hold(cudaStream_t stream) const {
  check_cuda(cudaStreamWaitEvent(stream, event_, cudaEventWaitDefault), "cudaStreamWaitEvent");
}

bool CudaEvent::reached() const {
  const CaptureExempt exempt;
  // Not an error: the work before the event is still running.
  const cudaError_t result = cudaEventQuery(event_);
  if (result == cudaErrorNotReady) return false;
  check_cuda(result, "cudaEventQuery");
  return true;
}

void CudaEvent::wait() const {
  const CaptureExempt exempt;
  check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

}  // namespace lockstep::comm
