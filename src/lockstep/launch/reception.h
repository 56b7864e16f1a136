#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <poll.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/launch/channel.h"
#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {

/// Thrown where a process may not come in, now or later.
class TurnedAway : public CommError {
 public:
  using CommError::CommError;
};

/// A connection that has been let in.
struct Entered {
  Channel channel;
  Welcome welcome;
};

/// Connects to the server of a job at host:port and introduces this process as `rank`, again where it was
/// kept out for lack of room or by an earlier process of its rank, within `timeout`. Throws TimeoutError;
/// CommError if nobody listens; TurnedAway, also if the listener does not know the token.
Entered enter(const std::string& host, int port, const JobKey& job, int rank,
              std::chrono::duration<double> timeout);

/// The listening end: lets in the processes of a job (the handshake of channel.h) and keeps out all others. A
/// stranger may send 4 KiB and take 5 s, and there are at most `world` + 16 at a time who have not said hello
/// yet. Where more come, the eldest goes; while no descriptor is left, nobody is let in for a moment. It owns
/// the connections; used by one thread at a time.
class Reception {
 public:
  /// Time for the hello of a process of the job: nobody is sent away earlier, or earlier to make room.
  static constexpr std::chrono::milliseconds kPatience{5000};
  static constexpr std::chrono::milliseconds kUndisturbed{100};

  struct Guest {
    Channel channel;
    /// -1 until its hello.
    int rank = -1;
    Clock::time_point since;
    /// "127.0.0.1:4242".
    std::string from;
    std::string challenge;
  };
  struct Denial {
    std::string reason;
    /// Whether it may come again.
    bool is_for_now = false;
  };
  struct Options {
    JobKey job;
    /// Lets in a process that has proved to be of this job, as a rank of it, or denies it.
    std::function<std::optional<Denial>(const Hello& hello)> admit;
    /// Called after the welcome was sent.
    std::function<void(Guest&)> entered;
    /// Called for each message of one that was let in. Throws Error, which ends the connection.
    std::function<void(Guest&, const Message&)> handle;
    /// Called when the connection of one that was let in has ended.
    std::function<void(Guest&)> ended;
    /// Called once, for the first stranger, with a sentence about it; may be empty.
    std::function<void(const std::string&)> on_stranger;
  };

  Reception(Listener listener, Options options);

  int port() const { return listener_.port; }

  /// Appends the descriptors for poll(). The listener is left out while nobody can be let in.
  void add_to(std::vector<pollfd>& wanted) const;
  /// Serves the events that poll() found: `polled` is what add_to() appended.
  void serve(std::span<const pollfd> polled);
  /// Ends the connections of those that take longer than `patience` to say hello.
  void drop_the_silent(std::chrono::milliseconds patience);

  /// Calls on_stranger for the first stranger: "127.0.0.1:4242 said no hello".
  void name_stranger(const std::string& sentence);

  /// The connections of ranks.
  std::vector<Guest*> guests();

 private:
  size_t most_unknown() const { return static_cast<size_t>(options_.job.world) + 16; }
  void serve_one(Guest& guest, short events);
  void receive_hello(Guest& guest, const Message& message);
  void accept_all();
  void make_room();
  /// Ends the connection with an answer.
  void refuse(Guest& guest, const std::string& reason);
  /// Ends the connection without an answer, after which a process of the job tries again.
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
