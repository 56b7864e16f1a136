#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/launch/channel.h"
#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/progress.h"
#include "lockstep/launch/reception.h"
#include "lockstep/launch/signals.h"

namespace lockstep::launch {

/// The values of a job's store, in its server, and the ranks that wait for one. Not thread-safe.
class ServedStore {
 public:
  /// Serves a request to the store (set, get, add, drop); false for any other message. Throws Error for a
  /// malformed one.
  bool handle(Reception::Guest& guest, const Message& message);
  /// For a connection that has ended.
  void forget(const Reception::Guest& guest);

 private:
  struct Waiting {
    Reception::Guest* guest;
    int64_t id;
  };
  void change(const std::string& key, const std::string& value);

  /// Keys and values in hexadecimal digits, as they travel.
  std::map<std::string, std::string> values_;
  std::multimap<std::string, Waiting> waiting_;
};

/// The server of a job (protocol: channel.h), in the parent that started the ranks, or in rank 0 where there
/// is no parent. A thread of its own lets the ranks in, announces when all have come, serves their store,
/// receives their heartbeats, decides which rank is lost and which loss caused the others, and sends that
/// verdict to every rank that is still there. Thread-safe.
///
/// Verdicts. Ranks that have not come in time, a connection that ends without `bye`, silence beyond the
/// time-out, and `failed` with an error of the rank's own are causes at once. An error that another rank's
/// end may have brought about (kDisturbed: a broken connection, a time-out) is held back for a second, so
/// that the other's end can show. Then a rank that has been silent for two seconds is taken for the cause,
/// else the first report is. After the end of a connection, a parent waits up to `end_deferral` for waitpid
/// to report how the process ended. A server that was itself stopped cannot know whether ranks were silent:
/// it starts counting anew.
class JobServer {
 public:
  struct Options {
    JobKey job;
    /// Listens as listen_tcp() does.
    std::string host = kLoopback;
    int port = 0;
    /// Silence after which a rank counts as lost.
    std::chrono::duration<double> timeout{kDefaultTimeout_s};
    /// Time in which all ranks have to come.
    std::chrono::duration<double> join_timeout{kDefaultJoinTimeout_s};
    /// Called from the server's thread after every `report_every` in which ranks are missing, with a line
    /// that names them. May be empty.
    std::function<void(const std::string& line)> on_waiting = {};
    std::chrono::duration<double> report_every{10};
    /// Time to wait, after a rank's connection has ended, for declare_lost() to say more.
    std::chrono::duration<double> end_deferral{0};
    /// Called once, from any thread, when the cause is known, with the lock held: must not call back.
    std::function<void()> on_cause = {};
    /// Called once, from any thread with the lock held, for the first stranger that connects, with a sentence
    /// about it; at the end of the job for one that has said nothing.
    std::function<void(const std::string&)> on_stranger = {};
  };

  /// Throws as listen_tcp().
  explicit JobServer(Options options);
  /// Ends the job for the ranks that are still there, orderly.
  ~JobServer();
  JobServer(const JobServer&) = delete;
  JobServer& operator=(const JobServer&) = delete;

  int port() const { return reception_.port(); }

  /// Reports the end of a rank's process, by a parent that knows how it ended; the server adds the rest. Does
  /// nothing for a rank that has finished or was lost before, or if the user ends the job.
  void declare_lost(LostRank lost);

  /// Announces to all ranks that the user ended the job by this signal. No rank that ends from now on counts
  /// as lost.
  void announce_signal(int signal);

  /// Announces to all ranks that the user knows the loss, if there is one.
  void announce_report();

  /// The loss that caused the others, once it is known.
  std::optional<LostRank> cause() const {
    const std::lock_guard lock(mutex_);
    return cause_;
  }
  /// All losses, the cause first.
  std::vector<LostRank> lost() const;

  bool finished(int rank) const {
    const std::lock_guard lock(mutex_);
    return peer_of(rank).finished;
  }
  /// For a rank whose process has ended: waits, a second at most, until its last messages have been read.
  void drain_messages(int rank);
  /// Waits until every rank has said goodbye (true), or the time is over or a rank is lost (false).
  bool wait_finished(std::chrono::duration<double> timeout);
  /// For a job that ends before all have come: waits until all ranks but 0 have come and got the verdict.
  /// Does not wait if the ranks had met.
  void wait_informed(std::chrono::duration<double> timeout);

 private:
  struct Peer {
    bool joined = false;
    bool finished = false;
    bool lost = false;
    /// It has got the verdict.
    bool informed = false;
    std::string host;
    int64_t pid = 0;
    Progress::Snapshot at;
    Clock::time_point last_heard;
    std::optional<Clock::time_point> ended_at;
  };
  Peer& peer_of(int rank) { return peers_[static_cast<size_t>(rank)]; }
  const Peer& peer_of(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  Reception::Options reception_options();
  void run();
  std::optional<Reception::Denial> admit(const Hello& hello);
  void entered(Reception::Guest& guest);
  void handle(Reception::Guest& guest, const Message& message);
  /// Ends the job because a signal ends a rank.
  void left_by_signal(int rank, int signal);
  /// Makes this process the cause: the others have left because it was silent.
  void abandoned(const LostRank& self);
  void ended(Reception::Guest& guest);
  /// Before all have come. Returns a line for on_waiting, if one is due.
  std::string check_missing(bool was_paused);
  void check_silence(bool was_paused);
  LostRank about(int rank) const;
  /// Adds what the rank has told of itself.
  LostRank with_facts(LostRank lost) const;
  void add_loss(LostRank lost);
  void set_cause(const LostRank& lost);
  template <typename T>
  void broadcast(const char* is, const T& content);

  const Options options_;
  WakeUp wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  ServedStore store_;
  Reception reception_;
  std::vector<LostRank> lost_;
  std::optional<LostRank> cause_;
  std::optional<Clock::time_point> disturbed_since_;
  Clock::time_point started_;
  Clock::time_point next_line_;
  bool met_ = false;
  bool leaving_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::launch
