#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::replica {

/// Work that was recorded once and can be launched many times: a CUDA graph. Tensors created during the
/// recording are in the graph's memory, and every launch overwrites them, so it must outlive their use. The
/// destructor waits for launches to finish.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Enqueues all of the work in the stream in which it was recorded.
  virtual void launch() = 0;
};

/// The GPU of a replica, and the one stream for all work of a step. A null pointer stands for the CPU. Code
/// that computes does not see it: LibTorch sends operations on a GPU's tensors to the current stream of the
/// calling thread (enter_thread()).
///
/// Thread-safe, except record(). Errors of the GPU are thrown as Error; if memory runs out, with the
/// requested and the available amount.
class Accelerator {
 public:
  /// A point in the stream.
  class Mark {
   public:
    virtual ~Mark() = default;
  };
  using MarkPtr = std::shared_ptr<Mark>;

  virtual ~Accelerator() = default;

  virtual at::Device device() const = 0;
  /// Makes the calling thread work on this GPU and in its stream from now on. Autograd's threads follow the
  /// stream of the forward pass.
  virtual void enter_thread() = 0;
  /// The stream as a cudaStream_t, for comm::Buffer.
  virtual void* stream() const = 0;

  /// Marks the end of the work that the stream holds now. Never blocks. Throws Error during a recording.
  virtual MarkPtr mark() = 0;
  virtual void wait(const Mark& mark) = 0;
  /// The time between two marks that have been reached, by the GPU's clock. Precise to half a microsecond up
  /// to 8 s, beyond that to seven digits, because CUDA returns milliseconds as a float.
  virtual double seconds_between(const Mark& from, const Mark& to) = 0;
  /// Waits for all work of the GPU.
  virtual void synchronize() = 0;

  /// Allocates page-locked host memory, which can be copied to and from the GPU asynchronously.
  virtual at::Tensor pinned(at::IntArrayRef shape, at::ScalarType dtype) = 0;

  /// Runs `work` on the host while its operations in this stream are recorded instead of executed. It must
  /// have been executed a few times before, because libraries allocate memory and choose kernels on first
  /// use. It must neither wait for the GPU nor read from it; decisions of the host become part of the
  /// recording. No other thread may use this GPU meanwhile, except NCCL's. Throws Error if an operation
  /// cannot be recorded, BackendMissing if there is no plugin for it; exceptions of `work` are passed on. The
  /// stream stays usable in every case.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& work) = 0;

  /// The largest amount of memory in use by tensors on this GPU since the last reset, over all threads of the
  /// process. The memory of recorded work counts when it is launched.
  virtual int64_t peak_memory_bytes() const = 0;
  virtual void reset_peak_memory() = 0;
  /// Returns memory that LibTorch caches for later tensors to the GPUs of this process, and waits for them.
  /// For NCCL, cuDNN and other processes, which do not allocate through LibTorch, and to make the memory in
  /// use visible.
  virtual void release_unused_memory() = 0;
};

/// Whether LibTorch can use GPUs on this machine, and what is missing if it cannot.
struct AcceleratorStatus {
  bool usable = false;
  /// "2 GPUs, LibTorch 2.11.0 with CUDA 13.0, cuDNN 9.15.0", or the reason why they are not usable.
  std::string detail;
  /// Advice for the user if GPUs are not usable.
  std::string advice;
  int count = 0;
};

/// Opens LibTorch's CUDA library, if there is one, which takes seconds. Thread-safe. Never throws.
AcceleratorStatus accelerator_status();

/// Throws BackendMissing if steps cannot be recorded (Accelerator::record()) because the plugin or one of its
/// libraries is missing. Call after accelerator_status(). Thread-safe.
void require_recording();

/// Opens GPU `index` of those that the process sees, with a stream of its own (OwnStream). Call before the
/// process's first backward pass. Thread-safe. Throws BackendMissing if there are no GPUs, ConfigError if
/// there are too few.
std::shared_ptr<Accelerator> open_accelerator(int index);

}  // namespace lockstep::replica
