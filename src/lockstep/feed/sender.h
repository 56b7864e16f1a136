#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"

namespace lockstep::feed {

struct SenderOptions {
  /// Addresses of all ranks (address_of_rank).
  std::vector<std::string> addresses;
  /// Messages that may wait for each rank.
  int prefetch = 4;
  /// Time without room for a message after which send() gives up.
  double timeout_s = kDefaultTimeout_s;
  /// The token of the ranks, where others could connect too (curve.h); empty: none.
  std::string token;
  /// send() ends once this is readable; -1: never.
  int interrupt_fd = -1;
};

/// The outcome of Sender::send().
enum class Sent {
  kSent,
  kInterrupted,
  /// Every rank that took messages has left, and none came for timeout_s.
  kRanksLeft
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
  /// Sends it once a rank has room, asleep until then. Throws Error if for timeout_s no rank came, or those
  /// that are there had no room.
  Sent send();

  /// Seconds that send() waited for room.
  double waited_s() const { return waited_s_; }

  /// Sends farewells, and waits until the ranks that are still there have taken all messages, timeout_s at
  /// most.
  void finish();

 private:
  /// Whether a rank had room for it.
  bool send_to_next();
  /// kSent: there is room again.
  Sent wait_for_room();
  /// Whether messages were sent, and each rank that got some has left.
  bool ranks_left();

  class Connection;
  struct State;
  std::unique_ptr<State> state_;
  double waited_s_ = 0;
};

}  // namespace lockstep::feed
