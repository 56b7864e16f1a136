#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/tcp_socket.h"

namespace lockstep::launch {

// The protocol of the watch. The coordinator listens: in the parent that started the ranks, or in rank 0
// where there is no parent. Every rank connects to it before it joins a communicator and keeps the connection
// until it ends. Messages are JSON objects, one a line, with the key "is".
//
//   rank                                coordinator
//    |-- hello {host, pid} ------------->|  as at every listener of the job (reception.h)
//    |<------------ welcome {host, pid} -|  followed by `lost` if the verdict was reached before
//    |-- beat {step, label} ------------>|  five times a second: steps completed of the row `label`
//    |<------------- beat {step, label} -|  in answer: rank 0's progress, if the coordinator runs there
//    |                                   |
//    |-- failed {lost} ----------------->|  this rank cannot go on; it waits for the verdict
//    |<-------------------- lost {lost} -|  the verdict, to every rank: the loss that caused all others
//    |                                   |
//    |-- leave {signal} ---------------->|  a signal told this rank to end, and with it the job
//    |<----------------- leave {signal} -|  to every rank: the user ended the job; no end is a loss now
//    |                                   |
//    |-- abandoned {lost} -------------->|  the coordinator was silent; if it wakes up, it is the cause
//    |-- bye --------------------------->|  this rank is done; the end of its connection is no loss
//    |<---------------------------- bye -|
//    |<---------------------------- end -|  the watch is over, in order
//
// Verdicts. A connection that ends without `bye`, silence beyond the time-out, and `failed` with an error of
// the rank's own are causes at once. An error that another rank's end may have brought about (kDisturbed: a
// broken connection, a time-out) is held back for a second, so that the other's end can show. Then a rank
// that has been silent for two seconds is taken for the cause, else the first report is. After the end of a
// connection, a parent waits up to a second for waitpid to tell how the process ended.
//
// A process that was itself stopped (kPaused) cannot tell whether others were silent: it starts counting
// anew.

using nlohmann::json;

/// Time between two heartbeats of a rank.
constexpr std::chrono::milliseconds kHeartbeatPeriod{200};
/// A loop of the watch that slept this long was paused itself (a stopped process, a suspended machine).
constexpr std::chrono::milliseconds kPaused{1000};

json to_message(const LostRank& lost);
/// For a terminal: texts are cleaned of control characters, and the exit code is one of a failure. Throws
/// nlohmann's exception for missing fields and for fields of another type.
LostRank lost_rank_from(const json& message);
/// The signal of a `leave`: SIGINT, SIGTERM or SIGHUP; SIGTERM for anything else.
int ending_signal_from(const json& message);

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
  void send(const json& message);
  void flush();
  bool has_unsent() const { return !unsent_.empty(); }

  /// Takes in all that has arrived. False once the other side has closed the connection or sent something
  /// that is not a message; earlier messages can still be taken with next().
  bool receive();
  std::optional<json> next();
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
