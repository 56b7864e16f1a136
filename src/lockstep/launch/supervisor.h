#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lockstep/base/clock.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/job_server.h"
#include "lockstep/launch/local_processes.h"
#include "lockstep/launch/signals.h"

namespace lockstep::launch {

/// Supervises the processes of one local launch until the last has ended, and hosts their server. It combines
/// the system's reports about them (exit codes, signals) with their own (steps, errors), and ends them when
/// one is lost or the user asks for it. All calls from the thread that made it.
class Supervisor {
 public:
  Supervisor(const LocalOptions& options, const JobKey& job);
  /// Kills the processes that are still alive.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int port() const { return server_->port(); }

  void start(const ChildCommand& command, int rank);

  Supervision run();

 private:
  struct Child {
    pid_t pid = 0;
    int rank = 0;
    /// waitpid's status, once it has ended.
    std::optional<int> status;
  };
  /// Measures against the ranks, each later and harder than the one before.
  enum class Stage { kRunning, kLeaving, kTerminating, kKilling };

  std::vector<Child>::const_iterator first_alive() const;
  void wait_for_news();
  void on_signal(int signal);
  void reap();
  void classify_exit(const Child& child);
  /// Ends ranks that said goodbye long ago and still run: a library may hang in its shutdown.
  void check_ends();
  void advance(Stage stage);
  void send_to_all(int signal);
  void stop_and_continue();
  Supervision result();

  const LocalOptions options_;
  SignalPipe signals_;
  WakeUp cause_known_;
  std::unique_ptr<JobServer> server_;
  std::vector<Child> children_;
  Stage stage_ = Stage::kRunning;
  Clock::time_point stage_ends_;
  std::optional<int> interrupted_by_;
  std::optional<Clock::time_point> all_finished_since_;
  /// A sentence about the rank that did not end after its goodbye.
  std::string did_not_end_;
};

}  // namespace lockstep::launch
