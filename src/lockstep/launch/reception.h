#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <poll.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/launch/tcp_socket.h"
#include "lockstep/launch/watch_message.h"

namespace lockstep::launch {

// How a process of the job comes in, at the watch and at the store. Messages as in watch_message.h:
//
//   who connects                               who listens
//    |<---------------------- {challenge} -----|  a random number, another one for each connection
//    |-- hello {job, rank, proof, challenge} ->|  proof: the answer to the challenge, which takes
//    |                                         |  the job's token (base/secret.h); a challenge in return
//    |<-------------------- welcome {proof} ---|  proof that the listener knows the token as well
//    |         or: turned away {reason}, again |  again: an earlier run of the ranks has not ended yet
//
// A recorded hello is of no use to anybody: the next challenge is another one. Whoever has not said hello yet
// may send 4 KiB and take 5 s, and there are at most `world` + 16 of them at a time. Where more come, the
// eldest goes; while no descriptor is left, nobody is let in for a moment.

constexpr const char* kWatchService = "watch";
constexpr const char* kStoreService = "store";

/// A process of the job, as it introduces itself.
struct Introduction {
  std::string service;
  std::string job_id;
  /// Empty in a job without one.
  std::string token;
  int rank = 0;
  /// Further members of the hello.
  json more = json::object();
};

/// Thrown where a process may not come in, now or later.
class TurnedAway : public CommError {
 public:
  using CommError::CommError;
};

/// A connection that has been let in.
struct Welcome {
  Channel channel;
  json message;
};

/// Connects and introduces this process, again where it was kept out for lack of room, within `timeout`.
/// Throws TimeoutError; CommError if nobody listens; TurnedAway, also if the listener does not know the
/// token.
Welcome enter(const std::string& host, int port, const Introduction& self,
              std::chrono::duration<double> timeout);

/// The listening end. It owns the connections; used by one thread at a time.
class Reception {
 public:
  struct Guest {
    Channel channel;
    /// -1 until its hello.
    int rank = -1;
    Clock::time_point since;
    /// "127.0.0.1:4242".
    std::string from;
    std::string challenge;
  };
  struct Options {
    std::string service;
    std::string job_id;
    std::string token;
    int world = 1;
    /// Lets in a rank, 0 to `world` - 1, that has proved to be of this job: its part of the welcome; null to
    /// make it come again later. Throws TurnedAway with a reason.
    std::function<json(int rank, const json& hello)> admit;
    /// Called after the welcome was sent; may be empty.
    std::function<void(Guest&)> entered;
    /// Called for each message of one that was let in. Throws nlohmann's exceptions, which end the
    /// connection.
    std::function<void(Guest&, const json&)> handle;
    /// Called when the connection of one that was let in has ended; may be empty.
    std::function<void(Guest&)> ended;
    /// Called once, for the first stranger, with a sentence about it; may be empty.
    std::function<void(const std::string&)> on_stranger;
  };

  Reception(Listener listener, Options options);

  int port() const { return listener_.port; }

  /// Appends what poll() is to wait for. The listener is left out while nobody can be let in.
  void add_to(std::vector<pollfd>& wanted) const;
  /// Serves what poll() found: `polled` is what add_to() appended.
  void serve(std::span<const pollfd> polled);
  /// Ends the connections of those that take too long to say hello.
  void drop_the_silent();

  /// Those that have been let in.
  std::vector<Guest*> guests();

  /// Whether serve() or drop_the_silent() have something to do soon, whatever poll() finds.
  bool expects_somebody() const { return unknown_ > 0 || Clock::now() < closed_until_; }

 private:
  size_t most_unknown() const { return static_cast<size_t>(options_.world) + 16; }
  void serve_one(Guest& guest, short events);
  void receive_hello(Guest& guest, const json& hello);
  void accept_all();
  void make_room();
  /// Ends the connection with an answer.
  void refuse(Guest& guest, const std::string& reason);
  /// Ends the connection without a word, after which a process of the job tries again.
  void keep_out(Guest& guest, const std::string& reason);

  Listener listener_;
  const Options options_;
  std::map<int, Guest> guests_;  // by file descriptor
  size_t unknown_ = 0;
  bool stranger_named_ = false;
  /// No descriptor was left: nobody is let in before.
  Clock::time_point closed_until_;
};

}  // namespace lockstep::launch
