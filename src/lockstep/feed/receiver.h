#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::feed {

/// A message of another process, in the memory in which it came.
struct ReceivedMessage {
  std::string_view bytes;
  /// Keeps `bytes`.
  std::shared_ptr<const void> memory;
};

/// One rank's end of the messages: it binds its address (address_of_rank), and any number of producers
/// connect to it, before or after, and come and go. Between the two is a connection's own flow control: a
/// producer waits while nobody takes its messages. Used by one thread, but for stop().
class Receiver {
 public:
  /// Throws ConfigError when the address is in use or cannot be bound.
  Receiver(std::string address, double timeout_s);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  const std::string& address() const;

  /// Waits for the next message that is no producer's farewell, asleep; nothing once it was stopped. Throws
  /// Error when none came for timeout_s, or one of several parts.
  std::optional<ReceivedMessage> next();

  /// Messages so far.
  int64_t received() const;

  /// next() ends, now and from now on. From any thread.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::feed
