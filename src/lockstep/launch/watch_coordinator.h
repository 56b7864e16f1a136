#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/progress.h"
#include "lockstep/launch/reception.h"
#include "lockstep/launch/signals.h"
#include "lockstep/launch/watch_message.h"

namespace lockstep::launch {

/// The center of the watch (protocol: watch_message.h). A thread of its own receives the heartbeats of all
/// ranks, decides which rank is lost and which loss caused the others, and tells every rank that is still
/// there. Thread-safe.
class WatchCoordinator {
 public:
  struct Options {
    int world = 1;
    /// Progress of the rank that runs the coordinator (0); null in a parent. Outlives the coordinator.
    const Progress* progress = nullptr;
    /// Ranks that say another id, or do not know the token, are turned away.
    std::string job_id;
    std::string token;
    /// Listens as listen_tcp() does.
    std::string host = kLoopback;
    std::chrono::duration<double> timeout{kDefaultTimeout_s};
    /// Time that a rank may take to appear at all.
    std::chrono::duration<double> join_timeout{kDefaultJoinTimeout_s};
    /// Time to wait, after a rank's connection has ended, for declare_lost() to say more.
    std::chrono::duration<double> end_deferral{0};
    /// Called once, from any thread, when the cause is known, with the lock held: must not call back.
    std::function<void()> on_cause;
    /// Called once, from the coordinator's thread with the lock held, for the first stranger that connects.
    std::function<void(const std::string&)> on_stranger;
  };

  explicit WatchCoordinator(Options options);
  /// Ends the watch for the ranks that are still there, orderly.
  ~WatchCoordinator();
  WatchCoordinator(const WatchCoordinator&) = delete;
  WatchCoordinator& operator=(const WatchCoordinator&) = delete;

  int port() const { return reception_.port(); }

  /// Reports the end of a rank's process by somebody who knows how it ended. Does nothing for a rank that has
  /// finished or was lost before, or if the user ends the job.
  void declare_lost(int rank, const std::string& reason, const std::string& advice, int exit_code);

  /// Tells all ranks that the user ended the job by this signal. No rank that ends from now on counts as
  /// lost.
  void tell_to_leave(int signal);

  /// The loss that caused the others, once it is known.
  std::optional<LostRank> cause() const;
  /// All losses, the cause first.
  std::vector<LostRank> lost() const;

  bool finished(int rank) const;
  /// For a rank whose process has ended: waits, a second at most, until its last messages have been read.
  void hear_out(int rank);
  /// Waits until every rank has said goodbye (true), or the time is over or a rank is lost (false).
  bool wait_finished(std::chrono::duration<double> timeout);
  /// Process ids of the connected ranks on this host.
  std::vector<int64_t> connected_pids();

 private:
  struct Peer {
    bool joined = false;
    bool finished = false;
    bool lost = false;
    std::string host;
    int64_t pid = 0;
    int64_t step = 0;
    std::string label;
    Clock::time_point last_heard;
    std::optional<Clock::time_point> ended_at;
  };
  Peer& peer_of(int rank) { return peers_[static_cast<size_t>(rank)]; }
  const Peer& peer_of(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  Reception::Options reception_options();
  void run();
  json admit(int rank, const json& hello);
  void handle(Reception::Guest& guest, const json& message);
  /// Ends the job because a rank was told to end.
  void left_by_signal(int rank, int signal);
  /// Makes this process the cause: the others have left because it was silent.
  void abandoned(const LostRank& self);
  void connection_ended(int rank);
  void check_times(bool was_paused);
  LostRank about(int rank) const;
  void add_loss(LostRank lost);
  void set_cause(const LostRank& lost);
  void broadcast(const json& message);

  const Options options_;
  WakeUp wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  Reception reception_;
  std::vector<LostRank> lost_;
  std::optional<LostRank> cause_;
  std::optional<Clock::time_point> disturbed_since_;
  Clock::time_point started_;
  bool leaving_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::launch
