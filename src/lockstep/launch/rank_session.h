#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/job_link.h"
#include "lockstep/launch/job_server.h"
#include "lockstep/launch/lost_rank.h"
#include "lockstep/launch/progress.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/launch/rendezvous.h"
#include "lockstep/launch/signals.h"

namespace lockstep::launch {

/// The reason for which a rank leaves before its work is done: one line for the user, which names the lost
/// rank if there is one. Exit code 130 after Ctrl-C, 143 after SIGTERM.
struct Departure : Trouble {
  /// Absent after a signal.
  std::optional<LostRank> lost;
  /// Whether this process reports it to the user, since neither its parent nor another rank does.
  bool prints = false;
};

/// A rank's tie to its job outside of the communicator: the meeting of the ranks, the watch over them, and
/// the signals that end it. Made once, first thing in a process that is a rank, before any other thread
/// exists: signals are blocked in the thread that makes it and so in all threads started later. A child of a
/// lockstep parent or of mpirun is tied to the life of that parent as well.
class RankSession {
 public:
  struct Options {
    /// Silence after which a rank counts as lost.
    std::chrono::duration<double> timeout{kDefaultTimeout_s};
    /// Time in which the ranks have to find each other.
    std::chrono::duration<double> join_timeout{kDefaultJoinTimeout_s};
    /// Called while ranks are missing, every ten seconds, with a line that names them: on rank 0 and, while
    /// that is missing itself, on one rank of each host. From any thread; may be empty.
    std::function<void(const std::string& line)> on_waiting = {};
    /// Called from a thread of the session for the first stranger that connects to the job, with a sentence;
    /// may be empty.
    std::function<void(const std::string&)> on_stranger = {};
    /// Called once, from a thread of the session, while the training thread may be blocked for good: save the
    /// results, print if `prints`, flush. The process then ends with _exit(exit_code); without a lockstep
    /// parent it first waits for the rank that prints, as launchers kill the others once one has ended, and
    /// if that ended before it could, there is a second call, with `prints`. It must return within half a
    /// second: launchers send SIGKILL soon after SIGTERM.
    std::function<void(const Departure&)> on_departure = {};
    /// See Rendezvous.
    OpenAgentStore open_agent_store = {};
  };

  /// Connects to the parent's server if there is a parent, for as long as that lives. Throws CommError where
  /// it is turned away.
  RankSession(const RankEnvironment& environment, Options options);
  /// Unless fail() or finish() was called, the others take this rank for lost.
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  /// Meets the other ranks; rank 0 without a lockstep parent hosts the server for that. Returns the job's
  /// store, which lives as long as the session; a store of this process for a rank alone. Throws TimeoutError
  /// where rank 0 is not found in time, TurnedAway for another token, ConfigError that names a port in use or
  /// a host that does not exist. If a rank cannot come, or does not in time, all depart. Collective.
  comm::Store& join();

  /// The progress that the training thread reports to; lives as long as the session.
  Progress& progress() { return progress_; }

  /// Reports to the others that this rank cannot go on, or not come, and returns the report for the user. An
  /// error of the communicator (CommError) may be only the consequence of another rank's end: waits up to two
  /// seconds to learn of that and names the cause. Without a lockstep parent, a rank that does not print
  /// waits up to two more for the one that does to end. The caller prints if `prints`, flushes, and then ends
  /// the process with leave(). on_departure will not be called any more; if a departure is already under way,
  /// this does not return.
  Departure fail(const std::exception& error) { return fail(error, environment_.rank, progress_); }
  /// The same for a rank that is a thread of this process, with a progress of its own.
  Departure fail(const std::exception& error, int rank, const Progress& progress);

  /// All done: the others no longer wait for this rank. on_departure will not be called any more. In the rank
  /// that hosts the server it ends the job for all, so the ranks meet (a barrier) before it. If a departure
  /// is already under way, this does not return.
  void finish();

  /// Ends the process at once, without destructors: a communicator that has lost a rank cannot be taken down.
  /// The host of the server first announces that the user has its report.
  [[noreturn]] void leave(int exit_code);

 private:
  enum class State { kRunning, kDeparting, kFailing, kFinished };

  void connect(std::chrono::duration<double> limit);
  void find_server(Rendezvous& rendezvous, std::chrono::duration<double> limit);
  void link_to(int server, const Address& at, std::chrono::duration<double> limit);
  /// The link lives until the session ends, once it is there.
  JobLink* link_if_any();
  void set_state_or_wait(State state);
  void wait_for_signals();
  void on_signal(int signal);
  void depart(Departure departure);
  JobServer* server_if_any();
  /// Returns whether this rank has to report in place of one that ended before it could.
  bool let_others_learn(const Departure& departure);
  LostRank own_failure(const std::exception& error) const;
  Departure departure_for(const LostRank& lost, bool others_know) const;
  Departure departure_for_signal(int signal);

  const RankEnvironment environment_;
  const Options options_;
  Progress progress_;
  /// The store of a rank without a job.
  comm::HashStore own_store_;
  std::mutex mutex_;
  State state_ = State::kRunning;
  /// A launcher's signal to this rank among others, as others would report it; empty: there was none.
  std::string told_to_end_;
  bool has_tried_ = false;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<JobServer> server_;
  std::unique_ptr<JobLink> link_;
  WakeUp wake_;
  std::thread signal_thread_;
};

}  // namespace lockstep::launch
