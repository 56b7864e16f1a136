#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/clock.h"

namespace lockstep::feed {

/// A message from another process, in the memory in which it arrived.
struct ReceivedMessage {
  std::string_view bytes;
  /// Owns `bytes`.
  std::shared_ptr<const void> memory;
};

struct ReceiverOptions {
  /// This rank's own (address_of_rank).
  std::string address;
  /// The command that feeds this rank and the others of its row.
  std::string producer = "lockstep feed";
  /// Time without a message that next() returns, after which it fails.
  double timeout_s = kDefaultTimeout_s;
  /// Size of the messages that are due. Longer ones end the connection that brings them: at an address of the
  /// file system those of more than 64 MiB and four times this size.
  size_t message_bytes = 0;
  /// The token that producers must know at an address that others can reach (curve.h); empty: none.
  std::string token;
  /// Throws Error for a message that is not wanted. Its name: "message 3 at ipc:///tmp/x".
  std::function<void(std::string_view message, const std::string& name)> check;
};

/// Messages and connections that were refused at an address that others can reach.
struct Refused {
  /// Messages that were not wanted, and connections without the token.
  int64_t count = 0;
  /// The first of them, in words; empty without any.
  std::string first;
};

/// A rank's receiving end: it binds its address (address_of_rank), and any number of producers connect to it,
/// earlier or later, and come and go. Flow control is the connection's: a producer waits while nobody takes
/// its messages. Used by one thread, except stop().
class Receiver {
 public:
  /// Throws ConfigError if the address is in use or cannot be bound.
  explicit Receiver(ReceiverOptions options);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// Waits, asleep, for the next message other than a farewell; empty after stop(). Throws Error if none came
  /// for timeout_s. A message that is not wanted, or has several parts, is an Error where only this user's
  /// processes and those with the token can send; where anybody can, it is dropped and counted.
  std::optional<ReceivedMessage> next();

  /// From any thread.
  Refused refused() const;

  /// Ends next(), the current call and all later ones. From any thread.
  void stop();

 private:
  const std::string& address() const;
  /// Throws Error for a message that is not wanted.
  void check(std::string_view message, bool has_parts) const;
  [[noreturn]] void throw_nothing_came() const;

  class FailedHandshakes;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::feed
