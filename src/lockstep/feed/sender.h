#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::feed {

struct SenderOptions {
  /// Of every rank (address_of_rank).
  std::vector<std::string> addresses;
  /// Messages that may wait for each rank.
  int prefetch = 4;
  /// Without room for a message for so long, there is nobody to send to.
  double timeout_s = 30;
  /// send() ends when this is readable; -1: never.
  int interrupt_fd = -1;
};

/// A producer's end: it connects to every rank, which may not be there yet, and sends each message to one of
/// those that have room, in turn. Used by one thread.
class Sender {
 public:
  explicit Sender(const SenderOptions& options);
  /// Drops what was not sent unless it was finished.
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// The memory of the next message, for the caller to fill.
  uint8_t* begin(size_t bytes);
  /// Sends it once a rank has room, asleep until then; false when it was interrupted. Throws Error when none
  /// had for timeout_s.
  bool send();

  /// Seconds that send() waited for room.
  double waited_s() const { return waited_s_; }

  /// Says farewell, and waits until the ranks that are still there have taken what was sent, timeout_s at
  /// most.
  void finish();

 private:
  /// Whether a rank had room for it.
  bool send_to_next();
  /// Whether there was room in the end.
  bool wait_for_room();

  class Connection;
  struct State;
  std::unique_ptr<State> state_;
  double waited_s_ = 0;
};

}  // namespace lockstep::feed
