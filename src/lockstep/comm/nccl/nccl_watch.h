#pragma once

#include <condition_variable>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/comm/nccl/nccl_link.h"
#include "lockstep/comm/nccl/nccl_operation.h"

namespace lockstep::comm {

/// A thread that sees operations to their end: it tells those who wait on the host, in the order of the
/// operations, and ends the communicator when an operation takes too long, when NCCL reports an error, and
/// when it is told to. It asks every 20 us to 0.5 ms while somebody waits, 20 times a second while none does,
/// and sleeps without an end while nothing is on its way. Thread-safe.
class NcclWatch {
 public:
  using FailureHandler = std::function<void(const Failure&)>;

  /// `failed` hears of the first failure, from the watch's thread, before the operations do.
  NcclWatch(std::shared_ptr<NcclLink> link, FailureHandler failed);
  /// As stop().
  ~NcclWatch();

  /// An operation that was issued, after all those before.
  void add(const std::shared_ptr<NcclOperation>& operation);
  /// Somebody waits for an operation that was marked as urgent.
  void wake();
  /// From now on there are CUDA graphs with operations that nobody else sees: NCCL's errors are asked for
  /// all the time.
  void watch_graphs();

  /// Fails all operations, and ends NCCL's communicator soon.
  void fail(const Failure& why);

  /// Whether nothing is on its way. Throws what the GPU says.
  bool idle() const;

  /// Ends NCCL's communicator, in good order unless something failed or is on its way, and the thread. A
  /// communicator that does not end within some seconds is left behind with its thread.
  void stop();

  double cpu_s() const;

 private:
  /// Outlives the watch when a thread has to be left behind.
  struct Shared {
    std::shared_ptr<NcclLink> link;
    FailureHandler failed;
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::shared_ptr<NcclOperation>> pending;
    bool woken = false;
    bool graphs = false;
    bool stopping = false;
    bool ended = false;
    std::optional<Failure> failure;
    std::optional<clockid_t> clock;
    double final_cpu_s = 0;
  };

  static void run(const std::shared_ptr<Shared>& shared);
  static void look(Shared& shared, std::unique_lock<std::mutex>& lock);
  static void fail_all(Shared& shared, std::unique_lock<std::mutex>& lock);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace lockstep::comm
