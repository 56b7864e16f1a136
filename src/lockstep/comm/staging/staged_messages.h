#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/progress_queue.h"
#include "lockstep/comm/staging/host_memory_pool.h"
#include "lockstep/comm/transport.h"
#include "lockstep/comm/waiter_threads.h"

namespace lockstep::comm {

/// Messages from and to device memory over a transport of host memory. A message is in host memory as a
/// whole. Thread-safe; the transport must live until stop().
class StagedMessages {
 public:
  StagedMessages(Transport& host, std::shared_ptr<CopyEngine> engine);
  ~StagedMessages();

  std::shared_ptr<Operation> send(const Buffer& buffer, int peer, int tag, Deadline deadline);
  std::shared_ptr<Operation> receive(const Buffer& buffer, int peer, int tag, Deadline deadline);
  std::shared_ptr<Operation> receive_any(const Buffer& buffer, int tag, Deadline deadline);

  bool idle();
  /// Fails what is on its way.
  void fail(const Failure& why) noexcept;
  /// Ends the threads. What the transport still has on its way must have an outcome by then.
  void stop() noexcept;

  double cpu_s() const;

 private:
  using Start = std::function<std::shared_ptr<Operation>(const Buffer& on_host)>;

  std::shared_ptr<Operation> keep(OperationInfo info);
  std::shared_ptr<Operation> start_receive(OperationInfo info, const Buffer& buffer, const Start& start);

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
