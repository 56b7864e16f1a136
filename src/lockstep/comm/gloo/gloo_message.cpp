#include "lockstep/comm/gloo/gloo_message.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/gloo/gloo_context.h"
#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {
namespace {

/// Gloo matches messages by a 64-bit slot. Those of its collectives begin with bytes 1 to 8 (gloo/types.h);
/// ours hold the tag and the size, so that a message of another size never lands in a buffer: it waits, and
/// so does the receiver.
///
///     63      56 55        36 35                 0
///     [  0x80   |    tag     |   size in bytes    ]
uint64_t message_slot(int tag, uint64_t bytes) {
  constexpr int kSizeBits = 36;
  if (bytes >> kSizeBits != 0) throw ConfigError(fmt::format("a message of {} bytes is too large", bytes));
  return uint64_t{0x80} << 56 | uint64_t(tag) << kSizeBits | bytes;
}

}  // namespace

GlooMessage::GlooMessage(const Message& message, gloo::Context& context, Deadline deadline,
                         std::shared_ptr<WaiterThreads> waiters)
    : Operation(info_of(message)),
      kind_(message.kind),
      deadline_(deadline),
      waiters_(std::move(waiters)),
      bytes_(message.buffer.bytes()),
      buffer_(context.createUnboundBuffer(bytes_ > 0 ? message.buffer.data : &placeholder_,
                                          std::max<size_t>(bytes_, 1))) {}

void GlooMessage::start(const gloo::Context& context) {
  const SigpipeBlock no_sigpipe;
  const uint64_t slot = message_slot(info().tag, bytes_);
  translated([&] {
    switch (kind_) {
      case Message::Kind::kSend:
        return buffer_->send(info().peer, slot, 0, buffer_->size);
      case Message::Kind::kReceive:
        return buffer_->recv(info().peer, slot, 0, buffer_->size);
      case Message::Kind::kReceiveAny:
        break;
    }
    std::vector<int> others;
    for (int peer = 0; peer < context.size; ++peer) {
      if (peer != context.rank) others.push_back(peer);
    }
    buffer_->recv(others, slot, 0, buffer_->size);
  });
}

void GlooMessage::drive_until(Deadline deadline) noexcept {
  const std::unique_lock driver(driving_, std::try_to_lock);
  if (!driver || has_outcome()) return;
  try {
    int peer = -1;
    const auto time = milliseconds_left(deadline);
    const bool sends = kind_ == Message::Kind::kSend;
    const bool done =
        translated([&] { return sends ? buffer_->waitSend(&peer, time) : buffer_->waitRecv(&peer, time); });
    // Not done means aborted, and abort() has set the failure.
    if (done) complete(sends ? -1 : peer);
  } catch (...) {
    Failure failure = Failure::from_current_exception();
    failure.what = fmt::format("{}: {}", info().describe(), failure.what);
    fail(failure);
  }
}

void GlooMessage::leave_to_waiter() {
  if (has_outcome()) return;
  std::call_once(left_to_waiter_, [this] {
    waiters_->run([self = shared_from_this()] { self->drive_until(self->deadline_); });
  });
}

bool GlooMessage::test() {
  leave_to_waiter();
  return Operation::test();
}

bool GlooMessage::wait_until(Deadline deadline) {
  // A time-out inside Gloo closes all connections, as a time-out of wait() should.
  drive_until(deadline);
  return Operation::wait_until(deadline);
}

void GlooMessage::on_complete(std::function<void()> done) {
  Operation::on_complete(std::move(done));
  leave_to_waiter();
}

void GlooMessage::unwatched() {
  leave_to_waiter();
}

void GlooMessage::abort(const Failure& why) {
  fail(why);
  buffer_->abortWaitRecv();
  buffer_->abortWaitSend();
}

}  // namespace lockstep::comm
