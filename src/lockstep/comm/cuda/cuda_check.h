#pragma once

#include <memory>

#include <cuda_runtime_api.h>

namespace lockstep::comm {

/// Throws CommError with CUDA's own words unless `result` is cudaSuccess. `call`: the function's name.
void check_cuda(cudaError_t result, const char* call);

/// How many GPUs this process sees. Throws BackendMissing when there is none, or no driver, or one too old
/// for the CUDA runtime that lockstep was built for.
int count_gpus();

/// Throws as count_gpus, and ConfigError when `device` is not the number of one. `needed_by`: "the nccl
/// backend".
void check_gpu(int device, const char* needed_by);

/// Whether `stream` is being captured into a CUDA graph.
bool is_capturing(cudaStream_t stream);

/// The calling thread's current GPU is that one from now on. It is not set back: a thread that chose none is
/// taken to be on GPU 0, and to choose that one, or to use it unasked, gives this process a context there:
/// hundreds of megabytes on what is another rank's GPU.
void enter_gpu(int device);

/// While it lives, a capture that another thread has begun does not forbid this thread to query, allocate or
/// wait, and is not spoilt by it: what it does is no part of what is captured.
class CaptureExempt {
 public:
  CaptureExempt() noexcept;
  ~CaptureExempt();
  CaptureExempt(const CaptureExempt&) = delete;
  CaptureExempt& operator=(const CaptureExempt&) = delete;

 private:
  cudaStreamCaptureMode before_ = cudaStreamCaptureModeRelaxed;
};

/// A point in a stream, without a time. Who waits for it on the host sleeps.
class CudaEvent {
 public:
  /// Of GPU number `device`.
  explicit CudaEvent(int device);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream);
  /// What is put into `stream` from now on comes after it.
  void hold(cudaStream_t stream) const;
  /// Never blocks.
  bool reached() const;
  void wait() const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace lockstep::comm
