#pragma once

#include <memory>
#include <mutex>

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include "lockstep/comm/helper_thread.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// One message in flight. Gloo reports completion only to a thread that blocks for it: a thread that calls
/// wait_until() does so itself; for test() and on_complete() a waiter thread does.
class GlooMessage final : public Operation, public std::enable_shared_from_this<GlooMessage> {
 public:
  /// `deadline`: when the message fails with a time-out, unless a waiter brings a deadline of its own.
  GlooMessage(const Message& message, gloo::Context& context, Deadline deadline,
              std::shared_ptr<WaiterThreads> waiters);

  /// Hands the message to Gloo. Throws.
  void start(const gloo::Context& context);

  bool test() override;
  bool wait_until(Deadline deadline) override;
  void on_complete(std::function<void()> done) override;
  void unwatched() override;

  /// Fails the message and wakes every waiter.
  void abort(const Failure& why);

 private:
  void drive_until(Deadline deadline) noexcept;
  void leave_to_waiter();

  const Message::Kind kind_;
  const Deadline deadline_;
  const std::shared_ptr<WaiterThreads> waiters_;
  /// Payload of an empty message; Gloo cannot send zero bytes.
  char placeholder_ = 0;
  const uint64_t bytes_;
  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  /// Held by the one thread that blocks in Gloo: of two, only one would be woken.
  std::mutex driving_;
  std::once_flag left_to_waiter_;
};

}  // namespace lockstep::comm
