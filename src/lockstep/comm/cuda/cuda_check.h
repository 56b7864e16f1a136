#pragma once

#include <memory>

#include <cuda_runtime_api.h>

namespace lockstep::comm {

/// Throws CommError with CUDA's own message unless `result` is cudaSuccess. `call`: the function's name.
void check_cuda(cudaError_t result, const char* call);

/// Number of GPUs that this process sees, at least one. Throws BackendMissing when there is no GPU or driver,
/// or when the driver is too old for the CUDA runtime that lockstep was built for.
int count_gpus();

/// Throws as count_gpus does, and ConfigError when no GPU has the number `device`. `needed_by`: the feature
/// that needs it, for the message: "the nccl backend".
void check_gpu(int device, const char* needed_by);

/// Whether `stream` is being captured into a CUDA graph.
bool is_capturing(cudaStream_t stream);

/// Makes `device` the calling thread's current GPU, for good. It is not restored: a thread that never chose a
/// GPU appears to be on GPU 0, and selecting that one would create a context there, which takes hundreds of
/// megabytes on a GPU that may be another rank's.
void enter_gpu(int device);

/// While it lives, this thread may query, allocate and wait although another thread is capturing a CUDA
/// graph, and its calls neither enter that graph nor invalidate it.
class CaptureExempt {
 public:
  CaptureExempt() noexcept;
  ~CaptureExempt();
  CaptureExempt(const CaptureExempt&) = delete;
  CaptureExempt& operator=(const CaptureExempt&) = delete;

 private:
  cudaStreamCaptureMode before_ = cudaStreamCaptureModeRelaxed;
};

/// A point in a stream, without a time stamp. Waiting for it on the host sleeps.
class CudaEvent {
 public:
  /// For streams of GPU number `device`.
  explicit CudaEvent(int device);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream);
  /// Makes work queued on `stream` from now on wait for the event.
  void hold(cudaStream_t stream) const;
  /// Never blocks.
  bool reached() const;
  void wait() const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace lockstep::comm
