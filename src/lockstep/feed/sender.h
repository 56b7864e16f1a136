#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::feed {

struct SenderOptions {
  /// Addresses of all ranks (address_of_rank).
  std::vector<std::string> addresses;
  /// Messages that may wait for each rank.
  int prefetch = 4;
  /// Time without room for a message after which send() gives up.
  double timeout_s = 30;
  /// The token of the ranks, where others could connect too (curve.h); empty: none.
  std::string token;
  /// send() ends once this is readable; -1: never.
  int interrupt_fd = -1;
};

/// A producer's end: it connects to every rank, present or not yet, and sends each message to one of those
/// that have room, in turn. Used by one thread.
class Sender {
 public:
  explicit Sender(const SenderOptions& options);
  /// Drops unsent messages unless finish() was called.
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// The memory of the next message, for the caller to fill.
  uint8_t* begin(size_t bytes);
  /// Sends it once a rank has room, asleep until then; false after an interrupt. Throws Error if no rank had
  /// room for timeout_s.
  bool send();

  /// Seconds that send() waited for room.
  double waited_s() const { return waited_s_; }

  /// Sends farewells, and waits until the ranks that are still there have taken all messages, timeout_s at
  /// most.
  void finish();

 private:
  /// Whether a rank had room for it.
  bool send_to_next();
  /// False after an interrupt.
  bool wait_for_room();

  class Connection;
  struct State;
  std::unique_ptr<State> state_;
  double waited_s_ = 0;
};

}  // namespace lockstep::feed
