#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lockstep/base/clock.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/local_processes.h"
#include "lockstep/launch/signals.h"
#include "lockstep/launch/watch_coordinator.h"

namespace lockstep::launch {

/// Looks after the processes of one local launch until the last has ended: joins what the system says of them
/// (exit codes, signals) with what the watch says (steps, errors), and ends them when one is lost or the user
/// wants it. All calls from the thread that made it.
class Supervisor {
 public:
  Supervisor(const LocalOptions& options, const std::string& job_id);
  /// Kills what is still alive.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int watch_port() const { return coordinator_->port(); }

  /// A rank, or (nothing) the launcher of all ranks.
  void start(const ChildCommand& command, std::optional<int> rank);

  Supervision run();

 private:
  struct Child {
    pid_t pid = 0;
    std::optional<int> rank;
    /// As waitpid tells it, once it has ended.
    std::optional<int> status;
  };
  /// What is done to the ranks, each step later than the one before.
  enum class Stage { kRunning, kLeaving, kTerminating, kKilling };

  bool any_alive() const;
  void wait_for_news();
  void on_signal(int signal);
  void reap();
  void judge(const Child& child);
  /// Ends ranks that have said goodbye long ago and still run: a library's shutdown may hang.
  void check_ends();
  void advance(Stage stage);
  /// Of those that had their time to leave by themselves.
  void end_ranks();
  void send_to_all(int signal);
  void stop_and_continue();
  void kill_leftovers();
  Supervision result();

  const LocalOptions options_;
  SignalPipe signals_;
  UniqueFd cause_known_;
  std::unique_ptr<WatchCoordinator> coordinator_;
  std::vector<Child> children_;
  Stage stage_ = Stage::kRunning;
  Clock::time_point stage_ends_;
  std::optional<int> interrupted_by_;
  std::optional<Clock::time_point> all_finished_since_;
  /// Names the rank that did not end after its goodbye.
  std::string did_not_end_;
  bool was_subreaper_ = false;
};

}  // namespace lockstep::launch
