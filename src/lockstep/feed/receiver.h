#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::feed {

/// A message from another process, in the memory in which it arrived.
struct ReceivedMessage {
  std::string_view bytes;
  /// Owns `bytes`.
  std::shared_ptr<const void> memory;
};

/// A rank's receiving end: it binds its address (address_of_rank), and any number of producers connect to it,
/// earlier or later, and come and go. Flow control is the connection's: a producer waits while nobody takes
/// its messages. Used by one thread, except stop().
class Receiver {
 public:
  /// Throws ConfigError if the address is in use or cannot be bound.
  Receiver(std::string address, double timeout_s);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  const std::string& address() const;

  /// Waits, asleep, for the next message other than a farewell; empty after stop(). Throws Error if none came
  /// for timeout_s, and for a message of several parts.
  std::optional<ReceivedMessage> next();

  /// Messages so far.
  int64_t received() const;

  /// Ends next(), the current call and all later ones. From any thread.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::feed
