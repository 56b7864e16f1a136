#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::replica {

/// What a GPU's queue was given once and carries out again and again: a CUDA graph. Whatever tensors were
/// made while it was recorded have their memory from it, and every launch writes them anew: it has to outlive
/// their use. Destroying waits for what was launched.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Puts all of it into the stream that it was recorded in.
  virtual void launch() = 0;
};

/// The GPU that a replica computes on, with the one stream that all of a step's work goes through. Null
/// stands for the CPU wherever one of these is asked for. What computes sees nothing of it: LibTorch sends
/// the operations on a GPU's tensors to the stream of the thread that calls them (enter_thread).
///
/// Thread-safe, but for record. Errors of the GPU are Error, where memory runs out with what was asked for
/// and what is there.
class Accelerator {
 public:
  /// A point in the stream's work.
  class Mark {
   public:
    virtual ~Mark() = default;
  };
  using MarkPtr = std::shared_ptr<Mark>;

  virtual ~Accelerator() = default;

  virtual at::Device device() const = 0;
  /// The calling thread works on this GPU and in its stream from now on. Autograd's own threads follow the
  /// stream of the forward pass.
  virtual void enter_thread() = 0;
  /// For comm::Buffer (a cudaStream_t).
  virtual void* stream() const = 0;

  /// The end of what the stream holds now. Never blocks. Throws Error while something is recorded.
  virtual MarkPtr mark() = 0;
  virtual bool reached(const Mark& mark) = 0;
  virtual void wait(const Mark& mark) = 0;
  /// As the GPU's own clock says, of two that are reached. Right to half a microsecond up to 8 s apart, then
  /// to seven digits: CUDA gives milliseconds as a float.
  virtual double seconds_between(const Mark& from, const Mark& to) = 0;
  /// Waits for all that the GPU was given.
  virtual void synchronize() = 0;

  /// Host memory that copies to and from the GPU need not wait for.
  virtual at::Tensor pinned(at::IntArrayRef shape, at::ScalarType dtype) = 0;

  /// Runs `work` in this stream without carrying it out, and keeps what it put there. It has to have been
  /// carried out a few times before: libraries allocate, and choose their kernels, at the first use. It must
  /// neither wait for the GPU nor read from it, and what the host decides or computes in it is decided once.
  /// No other thread may use this GPU meanwhile but for NCCL's. Throws Error where something in it cannot be
  /// recorded, BackendMissing where there is no plugin for it; what `work` throws comes out, and the stream
  /// is as usable as before.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& work) = 0;

  /// The most bytes that tensors of this GPU had at a time since the last reset, whichever of the process's
  /// threads made them; those of recorded work count when it is launched.
  virtual int64_t peak_memory_bytes() const = 0;
  virtual void reset_peak_memory() = 0;
  /// Gives back to the GPU what LibTorch keeps for tensors to come: for NCCL, cuDNN and other processes,
  /// which do not ask LibTorch, and so that the memory in use is what is used. Of all GPUs of the process;
  /// waits for them.
  virtual void release_unused_memory() = 0;
};

/// Whether LibTorch can use GPUs here, and what is missing where it cannot.
struct AcceleratorStatus {
  bool usable = false;
  /// "2 GPUs, LibTorch 2.11.0 with CUDA 13.0, cuDNN 9.15.0"; else the reason.
  std::string detail;
  /// What to do when it is not usable.
  std::string advice;
  int count = 0;
};

/// Opens LibTorch's part for CUDA, where it has one, which takes seconds. Thread-safe. Never throws.
AcceleratorStatus accelerator_status();

/// Throws BackendMissing where steps cannot be recorded (Accelerator::record) for want of the plugin or of
/// what it needs. After accelerator_status; thread-safe.
void require_recording();

/// The GPU of that number among those that the process sees, and a stream of its own, which no other one has
/// while this one lives, up to 32 of a GPU. Before the process's first backward pass. Thread-safe. Throws
/// BackendMissing where there are none, ConfigError where there are fewer.
std::shared_ptr<Accelerator> open_accelerator(int index);

}  // namespace lockstep::replica
