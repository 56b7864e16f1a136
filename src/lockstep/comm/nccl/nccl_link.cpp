#include "lockstep/comm/nccl/nccl_link.h"

#include <condition_variable>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/cuda/cuda_check.h"
#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {
namespace {

/// Carries out a call of NCCL that waits for the other ranks, on a thread of its own. At the deadline the
/// thread is left behind with everything that `call` owns, and TimeoutError thrown.
ncclResult_t within(Deadline deadline, int device, const char* name, std::function<ncclResult_t()> call) {
  struct Outcome {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<ncclResult_t> result;
  };
  const auto outcome = std::make_shared<Outcome>();
  HelperThread thread("ls-nccl-join", [outcome, device, call = std::move(call)]() mutable {
    cudaSetDevice(device);
    const CaptureExempt exempt;
    const ncclResult_t result = call();
    call = nullptr;
    const std::lock_guard lock(outcome->mutex);
    outcome->result = result;
    outcome->changed.notify_all();
  });
  std::unique_lock lock(outcome->mutex);
  const bool in_time =
      outcome->changed.wait_until(lock, deadline, [&] { return outcome->result.has_value(); });
  lock.unlock();
  if (!in_time) {
    thread.join_or_leave(Duration(0));
    throw TimeoutError(fmt::format("NCCL: {} did not finish in time", name),
                       "check that every rank is alive and takes the same steps");
  }
  thread.join();
  return *outcome->result;
}

}  // namespace

void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  std::string text = fmt::format("NCCL: {}: {}", call, ncclGetErrorString(result));
  // Often empty, and possibly about another failure at the same time.
  if (const char* last = ncclGetLastError(comm); last != nullptr && *last != '\0') {
    text += fmt::format(" ({})", last);
  }
  if (result == ncclRemoteError) {
    throw PeerLostError(text, "another rank ended or lost its network; its own output says why");
  }
  throw CommError(text, "NCCL_DEBUG=WARN in the environment makes NCCL say more");
}

NcclLink::NcclLink(int rank, int size, int device) : rank_(rank), size_(size), device_(device) {
  enter_gpu(device_);
  int least = 0;
  int greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  // Communication first: other ranks wait for it, but not for computation that it delays.
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
             "cudaStreamCreateWithPriority");
  constexpr size_t kScratchBytes = 8;
  check_cuda(cudaMalloc(&scratch_, kScratchBytes), "cudaMalloc");
  check_cuda(cudaMemsetAsync(scratch_, 0, kScratchBytes, stream_), "cudaMemsetAsync");
}

NcclLink::~NcclLink() {
  // Neither finished nor aborted: an operation may hang on the GPU, and freeing would wait for it. Leak.
  if (comm_ != nullptr) return;
  const CaptureExempt exempt;
  cudaStreamDestroy(stream_);
  cudaFree(scratch_);
}

std::shared_ptr<NcclLink> NcclLink::join(const ncclUniqueId& id, int rank, int size, int device,
                                         Deadline deadline) {
  std::shared_ptr<NcclLink> link(new NcclLink(rank, size, device));
  const ncclResult_t result = within(deadline, device, "ncclCommInitRankConfig", [link, id, rank, size] {
    // NCCL starts a thread for each operation of a communicator that does not block.
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    return ncclCommInitRankConfig(&link->comm_, size, id, rank, &config);
  });
  if (result != ncclSuccess) link->abort();
  check_nccl(result, "ncclCommInitRankConfig", nullptr);
  return link;
}

ncclComm_t NcclLink::open_comm() const {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) throw CommError("this NCCL communicator was ended after a failure");
  return comm_;
}

void NcclLink::launch(const char* name, const Call& call) {
  // Without the lock, so that abort() can end the call.
  const ncclResult_t result = call(open_comm(), stream_);
  check_nccl(result, name, open_comm());
}

std::shared_ptr<NcclLink> NcclLink::split(bool member, int new_rank, int new_size, Deadline deadline) {
  std::shared_ptr<NcclLink> link(member ? new NcclLink(new_rank, new_size, device_) : nullptr);
  const auto part = std::make_shared<ncclComm_t>(nullptr);
  const ncclResult_t result =
      within(deadline, device_, "ncclCommSplit",
             [self = shared_from_this(), comm = open_comm(), part, color = member ? 0 : NCCL_SPLIT_NOCOLOR] {
               // Blocking, as its parent is.
               return ncclCommSplit(comm, color, self->rank_, part.get(), nullptr);
             });
  if (link) link->comm_ = *part;
  if (result != ncclSuccess && link) link->abort();
  check_nccl(result, "ncclCommSplit", open_comm());
  return link;
}

std::shared_ptr<void> NcclLink::allocate(size_t bytes) {
  enter_gpu(device_);
  void* memory = nullptr;
  if (ncclMemAlloc(&memory, bytes) != ncclSuccess) return nullptr;
  void* handle = nullptr;
  if (ncclCommRegister(open_comm(), memory, bytes, &handle) != ncclSuccess) {
    ncclMemFree(memory);
    return nullptr;
  }
  return {memory, [self = shared_from_this(), handle](void* address) { self->release(address, handle); }};
}

void NcclLink::release(void* memory, void* handle) noexcept {
  std::unique_lock lock(mutex_);
  const ncclComm_t comm = comm_;
  lock.unlock();
  // Ended: an operation may hang on the GPU, and freeing would wait for it. Leak.
  if (comm == nullptr) return;
  const CaptureExempt exempt;
  cudaSetDevice(device_);
  cudaDeviceSynchronize();
  ncclCommDeregister(comm, handle);
  ncclMemFree(memory);
}

void NcclLink::check_health() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
  check_nccl(state, "an operation", comm_);
}

void NcclLink::abort() noexcept {
  // Taken away under the lock, ended without it: none should have to wait for the end. A call that another
  // thread is in returns with an error, as NCCL waits for no other rank any more.
  std::unique_lock lock(mutex_);
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  lock.unlock();
  if (comm != nullptr) ncclCommAbort(comm);
}

void NcclLink::finish() noexcept {
  std::unique_lock lock(mutex_);
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  lock.unlock();
  if (comm == nullptr) return;
  if (ncclCommFinalize(comm) == ncclSuccess) {
    ncclCommDestroy(comm);
  } else {
    ncclCommAbort(comm);
  }
}

}  // namespace lockstep::comm
