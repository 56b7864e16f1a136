#include "lockstep/comm/nccl/nccl_link.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/cuda/cuda_check.h"

namespace lockstep::comm {
namespace {

/// Paces the wait for NCCL to enqueue a call, which a thread that it starts for each call does in tens of
/// microseconds, unless it has to make connections first.
class EnqueuePause {
 public:
  void pause() const {
    constexpr auto kUsual = std::chrono::microseconds(300);
    if (Clock::now() - start_ < kUsual) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }

 private:
  Clock::time_point start_ = Clock::now();
};

/// Calls return at once, so that a time-out, and abort() from another thread, can end them.
ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
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
  enter_gpu(device);
  try {
    std::unique_lock lock(link->mutex_);
    ncclConfig_t config = non_blocking();
    const ncclResult_t result = ncclCommInitRankConfig(&link->comm_, size, id, rank, &config);
    link->settle(lock, result, "ncclCommInitRankConfig", deadline);
  } catch (...) {
    link->abort();
    throw;
  }
  return link;
}

ncclComm_t NcclLink::open_comm() const {
  if (comm_ == nullptr) throw CommError("this NCCL communicator was ended after a failure");
  return comm_;
}

void NcclLink::settle(std::unique_lock<std::mutex>& lock, ncclResult_t result, const char* name,
                      Deadline deadline) {
  const EnqueuePause backoff;
  check_nccl(result, name, comm_);
  while (result == ncclInProgress) {
    if (Clock::now() > deadline) {
      throw TimeoutError(fmt::format("NCCL: {} did not finish in time", name),
                         "check that every rank is alive and takes the same steps");
    }
    // Unlocked, so that the watch can check the communicator's health, or end it.
    lock.unlock();
    backoff.pause();
    lock.lock();
    check_nccl(ncclCommGetAsyncError(open_comm(), &result), "ncclCommGetAsyncError", comm_);
    check_nccl(result, name, comm_);
  }
}

void NcclLink::launch(const char* name, const Call& call, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const ncclResult_t result = call(open_comm(), stream_);
  settle(lock, result, name, deadline);
}

std::shared_ptr<NcclLink> NcclLink::split(bool member, int new_rank, int new_size, Deadline deadline) {
  std::shared_ptr<NcclLink> link(member ? new NcclLink(new_rank, new_size, device_) : nullptr);
  std::unique_lock lock(mutex_);
  ncclConfig_t config = non_blocking();
  const ncclResult_t result =
      ncclCommSplit(open_comm(), member ? 0 : NCCL_SPLIT_NOCOLOR, rank_, &part_, &config);
  settle(lock, result, "ncclCommSplit", deadline);
  // The old communicator's state has settled: the new one exists. It has a state of its own, settled below.
  if (link) link->comm_ = std::exchange(part_, nullptr);
  lock.unlock();
  if (!link) return nullptr;
  try {
    std::unique_lock link_lock(link->mutex_);
    link->settle(link_lock, ncclInProgress, "ncclCommSplit", deadline);
  } catch (...) {
    link->abort();
    throw;
  }
  return link;
}

void NcclLink::register_memory(void* data, size_t bytes, Deadline deadline) {
  void* handle = nullptr;
  launch(
      "ncclCommRegister",
      [&](ncclComm_t comm, cudaStream_t) { return ncclCommRegister(comm, data, bytes, &handle); }, deadline);
  const std::lock_guard lock(mutex_);
  if (handle != nullptr) registered_.push_back(handle);
}

void NcclLink::check_health() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
  check_nccl(state, "an operation", comm_);
}

void NcclLink::abort() noexcept {
  // Taken away under the lock, ended without it: no other thread may be in NCCL with this communicator
  // meanwhile, and none should have to wait for the end.
  std::unique_lock lock(mutex_);
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  registered_.clear();
  lock.unlock();
  if (comm != nullptr) ncclCommAbort(comm);
  // An unfinished split: the end of the old communicator stops it; then the new one is ended too.
  lock.lock();
  const ncclComm_t part = std::exchange(part_, nullptr);
  lock.unlock();
  if (part != nullptr) ncclCommAbort(part);
}

void NcclLink::finish(Deadline deadline) noexcept {
  try {
    std::unique_lock lock(mutex_);
    if (comm_ == nullptr) return;
    for (void* handle : std::exchange(registered_, {})) {
      settle(lock, ncclCommDeregister(open_comm(), handle), "ncclCommDeregister", deadline);
    }
    settle(lock, ncclCommFinalize(open_comm()), "ncclCommFinalize", deadline);
    const ncclComm_t comm = std::exchange(comm_, nullptr);
    lock.unlock();
    // Without the lock, as in abort(). Local and immediate once the communicator is finalized.
    ncclCommDestroy(comm);
  } catch (...) {
    abort();
  }
}

}  // namespace lockstep::comm
