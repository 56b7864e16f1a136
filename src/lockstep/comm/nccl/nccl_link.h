#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// Throws unless `result` is ncclSuccess or ncclInProgress: PeerLostError when another rank or the network is
/// gone, else CommError. `call`: the function's name; `comm`: for NCCL's own explanation, may be null.
void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm);

/// Makes the calls of `body` one NCCL group: body(keep_error) passes each call's result to keep_error. The
/// group is ended in any case. Returns the last call's error; without one, the result of the group's start or
/// end.
template <typename Body>
ncclResult_t grouped(const Body& body) {
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  body([&](ncclResult_t one) {
    if (one != ncclSuccess && one != ncclInProgress) result = one;
  });
  const ncclResult_t end = ncclGroupEnd();
  return result != ncclSuccess ? result : end;
}

/// One blocking NCCL communicator, with a stream of its own on one GPU. A call puts its work into the stream
/// on the calling thread, and does not wait for the GPU; but NCCL makes connections at the first use, and
/// then waits for the other ranks. abort(), from another thread, ends that wait. One call at a time.
/// Thread-safe otherwise.
class NcclLink : public std::enable_shared_from_this<NcclLink> {
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
  /// Eight bytes of GPU memory for operations without data.
  void* scratch() const { return scratch_; }

  /// `name`: of the call, for errors. Throws NCCL's error, CommError after abort().
  void launch(const char* name, const Call& call);

  /// Collective. Nothing may be in flight. Null on ranks that are not `member`s; members keep their order.
  std::shared_ptr<NcclLink> split(bool member, int new_rank, int new_size, Deadline deadline);

  /// See Communicator::allocate. Null as well if NCCL refuses.
  std::shared_ptr<void> allocate(size_t bytes);

  /// Throws an error that NCCL has met since it took the last call. Never blocks.
  void check_health();

  /// Ends NCCL's communicator on this rank, and with it all kernels and calls that wait for other ranks. May
  /// take as long as the GPU does. Nothing works afterwards.
  void abort() noexcept;
  /// Ends NCCL's communicator in good order, together with the ranks of this host, for which it may have to
  /// wait. Nothing may be in flight, and no CUDA graph that holds its operations may be left.
  void finish() noexcept;

 private:
  NcclLink(int rank, int size, int device);
  /// Throws CommError after abort().
  ncclComm_t open_comm() const;
  void release(void* memory, void* handle) noexcept;

  const int rank_;
  const int size_;
  const int device_;
  cudaStream_t stream_ = nullptr;
  void* scratch_ = nullptr;
  mutable std::mutex mutex_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace lockstep::comm
