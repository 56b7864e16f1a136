#include "lockstep/launch/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/operation.h"

namespace lockstep::launch {
namespace {

constexpr std::initializer_list<int> kSignals{SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGTSTP};
/// The end of a rank shows on its connection a moment before the system reports the reason.
constexpr std::chrono::milliseconds kEndDeferral{1000};
constexpr std::chrono::seconds kKillPatience{5};
constexpr int kCheckPeriod_ms = 1000;

const char* death_advice(int signal) {
  return signal == SIGKILL
             ? "If nobody killed it, the machine may have run out of memory: try a smaller --batch."
             : "";
}

bool is_child_of_this(int64_t pid) {
  const std::vector<std::string> status = process_status(pid);
  return status.size() > 1 && status[1] == std::to_string(::getpid());
}

}  // namespace

Supervisor::Supervisor(const LocalOptions& options, const JobKey& job)
    : options_(options), signals_(kSignals) {
  unblock_signals(kSignals);
  JobServer::Options server;
  server.job = job;
  server.timeout = options.timeout;
  server.join_timeout = std::max(options.timeout, options.join_timeout);
  server.on_waiting = options.on_waiting;
  server.on_stranger = options.on_stranger;
  // mpirun hides how its ranks ended, so there is nothing to wait for.
  server.end_deferral = options.through_mpirun ? std::chrono::milliseconds(0) : kEndDeferral;
  server.on_cause = [this] { cause_known_.wake(); };
  server_ = std::make_unique<JobServer>(std::move(server));
  if (options.through_mpirun) {
    // If mpirun dies, its ranks become children of this process, which ends them.
    int was = 0;
    ::prctl(PR_GET_CHILD_SUBREAPER, &was);
    was_subreaper_ = was != 0;
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
}

Supervisor::~Supervisor() {
  for (Child& child : children_) {
    if (child.status) continue;
    ::kill(-child.pid, SIGKILL);
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  if (!options_.through_mpirun) return;
  kill_leftovers();
  if (!was_subreaper_) ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

void Supervisor::start(const ChildCommand& command, std::optional<int> rank) {
  children_.push_back({start_child(command), rank, std::nullopt});
}

Supervision Supervisor::run() {
  while (first_alive() != children_.end()) {
    wait_for_news();
    while (const auto signal = signals_.take()) on_signal(*signal);
    reap();
    check_ends();
    if (stage_ == Stage::kRunning && server_->cause()) {
      advance(Stage::kLeaving);
    } else if (stage_ != Stage::kRunning && stage_ != Stage::kKilling && Clock::now() >= stage_ends_) {
      advance(stage_ == Stage::kLeaving ? Stage::kTerminating : Stage::kKilling);
    }
  }
  return result();
}

std::vector<Supervisor::Child>::const_iterator Supervisor::first_alive() const {
  return std::ranges::find_if(children_, [](const Child& child) { return !child.status; });
}

void Supervisor::wait_for_news() {
  int timeout_ms = kCheckPeriod_ms;
  if (stage_ == Stage::kLeaving || stage_ == Stage::kTerminating)
    timeout_ms = milliseconds_until(stage_ends_);
  pollfd wanted[] = {{signals_.fd(), POLLIN, 0}, {cause_known_.fd(), POLLIN, 0}};
  ::poll(wanted, 2, timeout_ms);
  cause_known_.take();
}

void Supervisor::on_signal(int signal) {
  if (signal == SIGCHLD) return;
  if (signal == SIGTSTP) return stop_and_continue();
  // A second Ctrl-C: at once.
  if (interrupted_by_) return advance(Stage::kKilling);
  interrupted_by_ = signal;
  server_->announce_signal(signal);
  // Ranks that have not joined the job yet need a signal.
  if (!options_.through_mpirun) {
    send_to_all(signal);
  } else if (server_->connected_pids().size() < static_cast<size_t>(options_.ranks)) {
    send_to_all(SIGTERM);
  }
  advance(options_.through_mpirun ? Stage::kLeaving : Stage::kTerminating);
}

void Supervisor::reap() {
  for (Child& child : children_) {
    int status = 0;
    if (child.status || ::waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
    child.status = status;
    // Kills processes that the rank has started and left behind in its group.
    ::kill(-child.pid, SIGKILL);
    classify_exit(child);
  }
}

void Supervisor::classify_exit(const Child& child) {
  // Its last message may say more than its exit code.
  if (child.rank) server_->drain_messages(*child.rank);
  if (!child.rank || interrupted_by_ || server_->finished(*child.rank)) return;
  const int status = *child.status;
  if (WIFSIGNALED(status)) {
    if (stage_ == Stage::kTerminating || stage_ == Stage::kKilling) return;  // killed by this process
    const int signal = WTERMSIG(status);
    server_->declare_lost(*child.rank, "was killed by " + signal_name(signal), death_advice(signal),
                          kExitFailed);
  } else if (!server_->cause()) {
    const int code = WEXITSTATUS(status);
    server_->declare_lost(*child.rank, fmt::format("exited with code {}", code), "",
                          code == 0 ? static_cast<int>(kExitFailed) : code);
  }
}

void Supervisor::check_ends() {
  if (stage_ != Stage::kRunning || !server_->wait_finished(std::chrono::seconds(0))) return;
  if (!all_finished_since_) all_finished_since_ = Clock::now();
  if (Clock::now() - *all_finished_since_ < options_.timeout) return;
  const auto alive = first_alive();
  if (alive == children_.end()) return;
  did_not_end_ = fmt::format("{} (pid {}) had finished its work but did not end, and was killed",
                             alive->rank ? fmt::format("rank {}", *alive->rank) : "mpirun", alive->pid);
  advance(Stage::kKilling);
}

void Supervisor::advance(Stage stage) {
  if (stage == Stage::kTerminating && stage_ == Stage::kLeaving) end_ranks();
  if (stage == Stage::kKilling) send_to_all(SIGKILL);
  if (stage == Stage::kLeaving) {
    // A rank that is stopped or hangs does not leave by itself.
    const auto cause = server_->cause();
    for (const Child& child : children_) {
      const bool silent = cause && cause->kind == LostRank::Kind::kSilent && child.rank == cause->rank;
      if (silent && !child.status) ::kill(-child.pid, SIGKILL);
    }
  }
  stage_ = stage;
  // mpirun needs more time to end a job.
  stage_ends_ = comm::deadline_after(options_.through_mpirun ? 2 * options_.grace : options_.grace);
}

void Supervisor::end_ranks() {
  if (!options_.through_mpirun) return send_to_all(SIGTERM);
  // mpirun ends its ranks by itself when one is lost, and crashes if a signal comes meanwhile. So its ranks
  // are killed instead; it ends once they are gone.
  for (const int64_t pid : server_->connected_pids()) ::kill(static_cast<pid_t>(pid), SIGKILL);
}

void Supervisor::send_to_all(int signal) {
  for (const Child& child : children_) {
    if (!child.status) ::kill(-child.pid, signal);
  }
}

void Supervisor::stop_and_continue() {
  const auto ranks_of_mpirun = options_.through_mpirun ? server_->connected_pids() : std::vector<int64_t>{};
  const auto send = [&](int signal) {
    for (const int64_t pid : ranks_of_mpirun) ::kill(static_cast<pid_t>(pid), signal);
    send_to_all(signal);
  };
  // The ranks are in groups of their own, which Ctrl-Z does not reach. This process goes on below after `fg`.
  send(SIGSTOP);
  ::kill(::getpid(), SIGSTOP);
  send(SIGCONT);
}

void Supervisor::kill_leftovers() {
  // Ranks of a dead mpirun have become children of this process (PR_SET_CHILD_SUBREAPER).
  const auto deadline = Clock::now() + kKillPatience;
  while (Clock::now() < deadline) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0 && errno == ECHILD) return;
    if (ended > 0) continue;
    for (const int64_t pid : server_->connected_pids()) {
      if (is_child_of_this(pid)) ::kill(static_cast<pid_t>(pid), SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Supervision Supervisor::result() {
  Supervision result{{.what = "", .advice = "", .exit_code = kExitDone}, {}};
  if (interrupted_by_) {
    result.exit_code = 128 + *interrupted_by_;
    result.what = ending_signal_text(*interrupted_by_);
    return result;
  }
  const std::optional<int> launcher = options_.through_mpirun ? children_.front().status : std::nullopt;
  const bool launcher_failed = launcher && *launcher != 0;
  if (!did_not_end_.empty()) {
    result.exit_code = kExitFailed;
    result.what = did_not_end_;
    result.advice = "A communication library may hang while it shuts down; the results are complete.";
    return result;
  }
  // Messages from the ranks of a failed launcher may still be on their way.
  if (launcher_failed && !server_->cause()) server_->wait_finished(kEndDeferral);

  result.lost = server_->lost();
  const std::optional<LostRank> cause = server_->cause();
  if (launcher && WIFSIGNALED(*launcher) && stage_ != Stage::kTerminating && stage_ != Stage::kKilling) {
    result.exit_code = kExitFailed;
    result.what = fmt::format("mpirun was killed by {}", signal_name(WTERMSIG(*launcher)));
  } else if (cause) {
    LostRank& first = result.lost.front();
    // mpirun's exit code is 128 + the signal that ended the rank.
    const int code = launcher && WIFEXITED(*launcher) ? WEXITSTATUS(*launcher) : 0;
    if (first.kind == LostRank::Kind::kGone && code > 128 && code < 128 + NSIG) {
      first.reason = "was killed by " + signal_name(code - 128);
      first.advice = death_advice(code - 128);
    }
    static_cast<Trouble&>(result) = first.trouble();
  } else if (launcher_failed && server_->wait_finished({})) {
    // The ranks said goodbye and then exited with the outcome of their work.
    result.exit_code = WEXITSTATUS(*launcher);
  } else if (launcher_failed) {
    result.exit_code = kExitFailed;
    result.what =
        fmt::format("mpirun exited with code {} before the ranks had started", WEXITSTATUS(*launcher));
    result.advice = "Its own messages are above.";
  } else {
    for (const Child& child : children_)
      result.exit_code = std::max(result.exit_code, WEXITSTATUS(*child.status));
  }
  return result;
}

}  // namespace lockstep::launch
