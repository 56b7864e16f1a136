#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/progress_queue.h"
#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/comm/transport.h"
#include "lockstep/comm/waiter_threads.h"

namespace lockstep::comm {

/// Keeps an engine's host memory for reuse. Thread-safe; memory on loan may outlive the pool.
class HostMemoryPool {
 public:
  explicit HostMemoryPool(std::shared_ptr<CopyEngine> engine);

  /// At least `bytes`; returns to the pool when its last owner releases it.
  std::shared_ptr<std::byte> take(size_t bytes);

 private:
  struct Shelves {
    std::shared_ptr<CopyEngine> engine;
    std::mutex mutex;
    /// By size, a power of two.
    std::map<size_t, std::vector<std::shared_ptr<std::byte>>> free;
  };

  std::shared_ptr<Shelves> shelves_;
};

/// Messages from and to device memory over a transport of host memory. Each message passes through host
/// memory as a whole. Thread-safe; the transport must live until stop().
class StagedMessages {
 public:
  StagedMessages(Transport& host, std::shared_ptr<CopyEngine> engine);
  ~StagedMessages();

  std::shared_ptr<Operation> start(const Message& message, Deadline deadline);

  bool idle();
  /// Fails every message in flight.
  void fail(const Failure& why) noexcept;
  /// Ends the threads. Messages that the transport still carries must have an outcome by then.
  void stop() noexcept;

  double cpu_s() const;

 private:
  std::shared_ptr<Operation> keep(const Message& message);
  std::shared_ptr<Operation> send(const Message& message, Deadline deadline);
  std::shared_ptr<Operation> receive(const Message& message, Deadline deadline);

  Transport& host_;
  const std::shared_ptr<CopyEngine> engine_;
  HostMemoryPool memory_;
  /// Sends leave in the order of their calls: each waits there for its copy, and for nothing else.
  ProgressQueue sends_;
  const std::shared_ptr<WaiterThreads> waiters_ = std::make_shared<WaiterThreads>();
  std::mutex mutex_;
  std::vector<std::shared_ptr<Operation>> pending_;
};

}  // namespace lockstep::comm
