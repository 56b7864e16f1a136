#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include <mpi.h>

#include "lockstep/comm/helper_thread.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// One message in flight. MPI moves and completes it only when a thread calls MPI, which MessagePoller does.
class MpiMessage final : public Operation {
 public:
  MpiMessage(const Message& message, Deadline deadline)
      : Operation(info_of(message)), message_(message), deadline_(deadline) {}

  /// Hands the message to MPI. Throws CommError.
  void start(MPI_Comm comm);

  /// Asks MPI, and passes an outcome on. True when there is one. Never blocks. Thread-safe.
  bool poll() noexcept;
  bool test() override;
  bool wait_until(Deadline deadline) override;

 private:
  void finish(const MPI_Status& status);

  const Message message_;
  const Deadline deadline_;
  /// Guards request_: MPI allows one thread at a time to test a request.
  std::mutex asking_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// A thread that polls messages on behalf of waiters and callbacks: it sleeps 20 us to 0.5 ms between rounds,
/// longer the longer nothing happens, and indefinitely while there is no message. Starts with the first one.
/// Thread-safe.
class MessagePoller {
 public:
  MessagePoller() = default;
  ~MessagePoller();
  MessagePoller(const MessagePoller&) = delete;
  MessagePoller& operator=(const MessagePoller&) = delete;

  void add(std::shared_ptr<MpiMessage> message);

  /// Ends the thread; messages without an outcome are no longer polled.
  void stop();

  double cpu_s() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<MpiMessage>> added_;
  bool stopping_ = false;
  HelperThread thread_;
};

}  // namespace lockstep::comm
