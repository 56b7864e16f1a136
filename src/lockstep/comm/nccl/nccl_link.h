#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// One NCCL communicator, non-blocking, with a stream of its own on one GPU. Every call into NCCL for it goes
/// through here, one at a time, and returns only when NCCL has put all of it into the stream: NCCL allows
/// neither another call nor work in the stream before. What others need from the GPU is not waited for.
/// Thread-safe.
class NcclLink {
 public:
  using Call = std::function<ncclResult_t(ncclComm_t comm, cudaStream_t stream)>;

  /// Collective. Throws TimeoutError, PeerLostError, CommError.
  static std::shared_ptr<NcclLink> join(const ncclUniqueId& id, int rank, int size, int device,
                                        Deadline deadline);
  /// Leaves NCCL's communicator as it is: call finish() or abort() first.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  /// Eight bytes of the GPU's memory for operations that are about no data.
  void* scratch() const { return scratch_; }

  /// `name`: of the call, for errors. Throws what NCCL says, TimeoutError when NCCL does not come to an end
  /// of enqueuing (it makes connections with the other ranks there), CommError after abort().
  void launch(const char* name, const Call& call, Deadline deadline);

  /// Collective. Nothing may be on its way. Null on ranks that are not `member`s; these are ordered by rank.
  std::shared_ptr<NcclLink> split(bool member, int new_rank, int new_size, Deadline deadline);

  /// See Communicator::register_memory.
  void register_memory(void* data, size_t bytes, Deadline deadline);

  /// Throws what has gone wrong in NCCL since it took the last call. Never blocks.
  void check_health();

  /// Ends NCCL's communicator, and with it all that its kernels still wait for, on this rank. May take as
  /// long as the GPU does. Nothing works afterwards.
  void abort() noexcept;
  /// Ends it in good order, with the ranks of this host; falls back to abort() at the deadline. Nothing may
  /// be on its way, and no CUDA graph may be left that holds operations of it.
  void finish(Deadline deadline) noexcept;

 private:
  NcclLink(int rank, int size, int device);
  /// Waits while the communicator's state is ncclInProgress, beginning with `result`; `lock` holds mutex_.
  void settle(std::unique_lock<std::mutex>& lock, ncclResult_t result, const char* name, Deadline deadline);
  ncclComm_t open_comm() const;

  const int rank_;
  const int size_;
  const int device_;
  cudaStream_t stream_ = nullptr;
  void* scratch_ = nullptr;
  std::mutex mutex_;
  /// NCCL writes both from threads of its own, until it is settled: they stay where they are.
  ncclComm_t comm_ = nullptr;
  ncclComm_t part_ = nullptr;
  std::vector<void*> registered_;
};

}  // namespace lockstep::comm
