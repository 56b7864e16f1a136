#pragma once

#include <optional>

#include <c10/core/Event.h>

namespace lockstep::strategies {

/// Memory of a GPU that threads use in turn, each in a stream of its own: what a thread enqueues between
/// begin() and end() comes after what the one before did. On the CPU it does nothing. Its owner sees to it
/// that there is one thread at a time.
class StreamTurns {
 public:
  explicit StreamTurns(at::Device device) : device_(device) {}

  void begin() {
    if (last_) last_->block(current_stream());
  }

  void end() {
    if (!device_.is_cuda()) return;
    if (!last_) last_.emplace(device_.type());
    last_->record(current_stream());
  }

 private:
  c10::Stream current_stream() const {
    return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  }

  at::Device device_;
  std::optional<c10::Event> last_;
};

}  // namespace lockstep::strategies
