#pragma once

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/json_codec.h"
#include "lockstep/base/tcp_socket.h"

namespace lockstep::launch {

// The protocol between the ranks of a job and its server (job_server.h), which is in the parent that started
// the ranks, or in rank 0 where there is no parent. Each rank has one connection, from before the ranks meet
// until its end. Messages are JSON objects, one a line, with the key "is".
//
//   rank                                server
//    |<-------------- challenge {text} --|  a random number, another one for each connection
//    |-- hello {job, rank, host, pid, -->|  proof: the answer to the challenge, which takes the job's token
//    |          proof, challenge}        |  (base/secret.h); a challenge in return
//    |<----- welcome {proof, host, pid} -|  proof that the server knows the token as well
//    |       or: refused {text}          |  also where a process of this rank is there already
//    |       or: again {text}            |  later: that process has left, and its job ends soon
//    |<----------------------------- met-|  all ranks have come
//    |                                   |
//    |-- set {id, key, value} ---------->|  the store; keys and values in hexadecimal digits
//    |-- get {id, key} ----------------->|
//    |-- add {id, key, value} ---------->|
//    |<------------------ got {id, value}|  for get: as soon as the key is set
//    |-- drop {id} --------------------->|  nobody waits for this get any more
//    |                                   |
//    |-- beat {step, label} ------------>|  five times a second: steps completed of the row `label`
//    |<-------------- beat {step, label} |  in answer: rank 0's
//    |-- stranger {text} --------------->|  somebody who is no rank connected to this one
//    |-- failed {loss} ----------------->|  this rank cannot go on, or not come; it waits for the verdict
//    |<---------------------- lost {loss}|  the verdict, to every rank: the loss that caused all others
//    |-- heard ------------------------->|  the verdict has come
//    |-- leave {signal} ---------------->|  a signal told this rank to end, and with it the job
//    |<-------------------- leave {signal}  to every rank: the user ended the job; no end is a loss now
//    |-- abandoned {loss} -------------->|  the server was silent; if it wakes up, it is the cause
//    |-- bye --------------------------->|  this rank is done; the end of its connection is no loss
//    |<------------------------------ bye|
//    |<------------------------------ end|  the job is over, in order; after a verdict: the user knows it
//
// A recorded hello is of no use to anybody: the next challenge is another one.

/// Time between two heartbeats of a rank.
constexpr std::chrono::milliseconds kHeartbeatPeriod{200};
/// A loop that slept this long was paused itself (a stopped process, a suspended machine).
constexpr std::chrono::milliseconds kPaused{1000};

/// An argument of several messages: a challenge, or a reason.
struct Text {
  std::string text;

  LOCKSTEP_DESCRIBE(kRequired, text)
};

struct Hello {
  std::string job;
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  std::string proof;
  std::string challenge;

  LOCKSTEP_DESCRIBE(kRequired, job, rank, host, pid, proof, challenge)
};

struct Welcome {
  std::string proof;
  std::string host;
  int64_t pid = 0;

  LOCKSTEP_DESCRIBE(kRequired, proof, host, pid)
};

/// A request to the store, and the answer.
struct Entry {
  int64_t id = 0;
  std::string key;
  std::string value;

  LOCKSTEP_DESCRIBE(kRequired, id, key, value)
};

struct Leave {
  int signal = 0;

  /// SIGINT, SIGTERM or SIGHUP; SIGTERM for anything else.
  int ending_signal() const { return signal == SIGINT || signal == SIGHUP ? signal : SIGTERM; }

  LOCKSTEP_DESCRIBE(kOptional, signal)
};

/// A received message. Its sender may be of another version, or taken over.
class Message {
 public:
  explicit Message(nlohmann::json content) : content_(std::move(content)) {}

  /// Empty for a message without a kind.
  std::string is() const;
  /// Texts are cleaned for a terminal. Throws Error for a member that is missing or of another type.
  template <typename T>
  T as() const {
    T value;
    decode(JsonNode(content_, "a message"), value);
    return value;
  }

 private:
  nlohmann::json content_;
};

/// Messages over a connection that never blocks. Not thread-safe.
class Channel {
 public:
  /// Bytes that a peer may send without an end of line before it is no peer of ours.
  static constexpr size_t kLongestMessageBytes = 1 << 20;

  Channel() = default;
  explicit Channel(UniqueFd fd, size_t longest_message_bytes = kLongestMessageBytes);

  int fd() const { return fd_.get(); }
  void set_longest_message(size_t bytes) { longest_ = bytes; }

  /// Sends as much as the system takes and keeps the rest; a broken connection shows in receive().
  void send(std::string_view is, Json content = Json::object());
  template <typename T>
  void send(std::string_view is, const T& content) {
    send(is, encode(content));
  }
  void flush();
  bool has_unsent() const { return !unsent_.empty(); }

  /// Takes in what has arrived, a message at least. False once the other side has closed the connection or
  /// sent something that is not a message; earlier messages can still be taken with next().
  bool receive();
  std::optional<Message> next();
  bool is_open() const { return open_; }
  /// Whether anything has ever arrived.
  bool has_received() const { return has_received_; }

 private:
  UniqueFd fd_;
  size_t longest_ = kLongestMessageBytes;
  bool has_received_ = false;
  std::string unsent_;
  std::string received_;
  bool open_ = true;
};

}  // namespace lockstep::launch
