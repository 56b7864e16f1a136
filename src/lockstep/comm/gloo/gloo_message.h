#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include "lockstep/comm/operation.h"
#include "lockstep/comm/types.h"
#include "lockstep/comm/waiter_threads.h"

namespace lockstep::comm {

/// One message on its way. Gloo tells of its end only to a thread that blocks for it: the one that waits does
/// so itself; for those who only test or want to be called, a waiter thread does.
class GlooMessage final : public Operation, public std::enable_shared_from_this<GlooMessage> {
 public:
  enum class Direction { kSend, kReceive };

  /// `deadline`: when the message fails with a time-out, unless somebody waits with a deadline of its own.
  GlooMessage(OperationInfo info, Direction direction, gloo::Context& context, const Buffer& buffer,
              Deadline deadline, std::shared_ptr<WaiterThreads> waiters);

  /// Hands the message to Gloo. `peers`: one, or all that may send. Throws.
  void start(const std::vector<int>& peers, int tag);

  bool test() override;
  bool wait_until(Deadline deadline) override;
  void on_complete(std::function<void()> done) override;
  void unwatched() override;

  /// Fails the message and wakes who waits for it.
  void abort(const Failure& why);

 private:
  void drive_until(Deadline deadline) noexcept;
  void leave_to_waiter();

  const Direction direction_;
  const Deadline deadline_;
  const std::shared_ptr<WaiterThreads> waiters_;
  /// What an empty message carries: Gloo does not send nothing.
  char placeholder_ = 0;
  const uint64_t bytes_;
  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  /// Held by the one thread that blocks in Gloo.
  std::mutex driving_;
  std::once_flag left_to_waiter_;
};

}  // namespace lockstep::comm
