#pragma once

#include <atomic>
#include <cstddef>

namespace lockstep::test {

/// A CUDA runtime and an NCCL without a GPU, for what the nccl backend does on the host: the functions that
/// it calls, by their own names. A stream does its work at once unless it is held; an operation of NCCL does
/// nothing, or waits for ranks that never come.
struct NcclStub {
  /// Calls that wait for other ranks, until the communicator is aborted.
  std::atomic<bool> operations_hang{false};
  /// The same; nothing can end this one.
  std::atomic<bool> joining_hangs{false};
  /// Events are not reached.
  std::atomic<bool> gpu_hangs{false};
  std::atomic<bool> capturing{false};

  std::atomic<int> communicators{0};
  std::atomic<int> aborted{0};
  std::atomic<int> destroyed{0};
  std::atomic<int> operations{0};
  /// Threads that operations were called on, other than the first one's.
  std::atomic<int> operations_on_other_threads{0};
  /// ncclConfig_t::blocking of the last communicator that was joined.
  std::atomic<int> blocking{-1};
  std::atomic<int> registered{0};
  std::atomic<int> deregistered{0};
  std::atomic<size_t> allocated_bytes{0};
  std::atomic<int> freed{0};
};

NcclStub& nccl_stub();
/// As in a process that has just begun.
void reset_nccl_stub();

}  // namespace lockstep::test
