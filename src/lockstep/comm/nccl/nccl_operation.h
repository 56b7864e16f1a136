#pragma once

#include <atomic>
#include <memory>

#include "lockstep/comm/cuda/cuda_check.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// One operation in the communicator's stream. Held (a message that is not issued yet), then issued, and
/// then, unless it was captured into a CUDA graph, complete when the GPU has come to its end; somebody has to
/// ask the GPU, which NcclWatch does: in the order of the operations, as they end in it. Thread-safe.
class NcclOperation final : public Operation {
 public:
  using Operation::Operation;

  /// Is in the stream now; `end` comes right after it. `captured`: nobody will know on the host when it is
  /// complete, and it will be carried out as often as the graph is launched.
  void issued(std::shared_ptr<CudaEvent> end, bool captured, Deadline deadline);

  bool captured() const { return captured_; }

  /// Asks the GPU, and passes an outcome on. True when there is one. Never blocks, never throws. For the
  /// watch alone.
  bool poll() noexcept;

  /// Whether the GPU has come to its end. Never blocks.
  bool reached() const;

  /// What is put into `stream` from now on comes after the operation. It has been issued. Throws.
  void hold(cudaStream_t stream) const;

  /// Whether somebody on the host waits for it.
  bool urgent() const { return urgent_; }
  void hurry() { urgent_ = true; }

 private:
  std::atomic<bool> captured_{false};
  std::atomic<bool> urgent_{false};
  /// Set once, before other threads know of the operation as issued.
  std::shared_ptr<CudaEvent> end_;
  Deadline deadline_{};
};

}  // namespace lockstep::comm
