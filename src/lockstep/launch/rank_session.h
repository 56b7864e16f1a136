#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/progress.h"
#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {

/// The reason for which a rank leaves before its work is done.
struct Departure {
  /// Exit code of the process: 1, or that of the rank which failed; 130 after Ctrl-C, 143 after SIGTERM.
  int exit_code = 1;
  /// One line for the user, which names the lost rank if there is one. Advice may be empty.
  std::string reason;
  std::string advice;
  /// Absent after a signal.
  std::optional<LostRank> lost;
  /// Whether this process tells the user, since neither its parent nor another rank does.
  bool prints = false;
};

/// A rank's tie to its job outside of the communicator: the watch over the other ranks, and the signals that
/// end it. Made once, first thing in a process that is a rank, before any other thread exists: signals are
/// blocked in the thread that makes it and so in all threads started later. A child of a lockstep parent or
/// of mpirun is tied to the life of that parent as well.
class RankSession {
 public:
  struct Options {
    /// Silence after which a rank counts as lost.
    std::chrono::duration<double> timeout{kDefaultTimeout_s};
    /// Called, if given, from a thread of the session, for the first stranger that connects to the watch: a
    /// sentence.
    std::function<void(const std::string&)> on_stranger;
    /// Called at most once, from a thread of the session, while the training thread may be blocked for good:
    /// keep what was measured, print if `prints`, flush. The process then ends with _exit(exit_code); without
    /// a lockstep parent it first waits for the rank that prints, as launchers kill the others once one has
    /// ended. It must
    /// return within half a second: launchers send SIGKILL soon after SIGTERM.
    std::function<void(const Departure&)> on_departure;
  };

  /// Joins the parent's watch if there is a parent. Throws CommError if that fails.
  RankSession(const RankEnvironment& environment, Options options);
  /// Unless fail() or finish() was called, the others take this rank for lost.
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  /// Joins the watch if no parent runs it: rank 0 hosts the coordinator and publishes its address under the
  /// key "watch" of the store. Every rank calls it, with the job's token. Does nothing under a lockstep
  /// parent and in a job of one rank (`store` may be null then). Throws TimeoutError or CommError.
  void start_watch(comm::Store* store, const std::string& token);

  /// The progress that the training thread reports to; lives as long as the session.
  Progress& progress();

  /// Tells the others that this rank cannot go on, and decides what the user is told. An error of the
  /// communicator (CommError) may be only the consequence of another rank's end: waits up to two seconds to
  /// learn of that and names the cause. Without a lockstep parent, a rank that does not print waits up to two
  /// more for the one that does to end. The caller prints if `prints`, flushes, and then ends the process
  /// with leave(). on_departure will not be called any more; if a departure is already under way, this does
  /// not return.
  Departure fail(const std::exception& error);

  /// All done: the others no longer wait for this rank. on_departure will not be called any more. In the rank
  /// that hosts the coordinator it ends the watch for all, so the ranks meet (a barrier) before it. If a
  /// departure is already under way, this does not return.
  void finish();

  /// Ends the process at once, without destructors: a communicator that has lost a rank cannot be taken down.
  [[noreturn]] static void leave(int exit_code);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::launch
