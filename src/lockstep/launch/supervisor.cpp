#include "lockstep/launch/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/operation.h"

namespace lockstep::launch {
namespace {

constexpr std::initializer_list<int> kSignals{SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGTSTP};
constexpr int kCheckPeriod_ms = 1000;

/// By waitpid's status.
LostRank ended_rank(int rank, pid_t pid, int status) {
  LostRank lost;
  lost.rank = rank;
  lost.pid = pid;
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    lost.reason = fmt::format("exited with code {}", code);
    if (code != 0) lost.exit_code = code;
  } else {
    lost.reason = "was killed by " + signal_name(WTERMSIG(status));
    if (WTERMSIG(status) == SIGKILL)
      lost.advice = "If nobody killed it, the machine may have run out of memory: try a smaller --batch.";
  }
  return lost;
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
  // The end of a rank shows on its connection before the system reports the reason to this process: seconds
  // before, where memory is short.
  server.end_deferral = options.timeout;
  server.on_cause = [this] { cause_known_.wake(); };
  server_ = std::make_unique<JobServer>(std::move(server));
}

Supervisor::~Supervisor() {
  for (Child& child : children_) {
    if (child.status) continue;
    ::kill(-child.pid, SIGKILL);
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) continue;
  }
}

void Supervisor::start(const ChildCommand& command, int rank) {
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
  send_to_all(signal);
  advance(Stage::kTerminating);
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
  server_->drain_messages(child.rank);
  if (interrupted_by_ || server_->finished(child.rank)) return;
  const bool was_killed = WIFSIGNALED(*child.status);
  const bool is_this_ones_doing = was_killed && (stage_ == Stage::kTerminating || stage_ == Stage::kKilling);
  const bool is_consequence = !was_killed && server_->cause();
  if (is_this_ones_doing || is_consequence) return;
  server_->declare_lost(ended_rank(child.rank, child.pid, *child.status));
}

void Supervisor::check_ends() {
  if (stage_ != Stage::kRunning || !server_->wait_finished(std::chrono::seconds(0))) return;
  if (!all_finished_since_) all_finished_since_ = Clock::now();
  if (Clock::now() - *all_finished_since_ < options_.timeout) return;
  const auto alive = first_alive();
  if (alive == children_.end()) return;
  did_not_end_ = fmt::format("rank {} (pid {}) had finished its work but did not end, and was killed",
                             alive->rank, alive->pid);
  advance(Stage::kKilling);
}

void Supervisor::advance(Stage stage) {
  if (stage == Stage::kTerminating && stage_ == Stage::kLeaving) send_to_all(SIGTERM);
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
  stage_ends_ = comm::deadline_after(options_.grace);
}

void Supervisor::send_to_all(int signal) {
  for (const Child& child : children_) {
    if (!child.status) ::kill(-child.pid, signal);
  }
}

void Supervisor::stop_and_continue() {
  // The ranks are in groups of their own, which Ctrl-Z does not reach. This process goes on below after `fg`.
  send_to_all(SIGSTOP);
  ::kill(::getpid(), SIGSTOP);
  send_to_all(SIGCONT);
}

Supervision Supervisor::result() {
  Supervision result;
  result.exit_code = kExitDone;
  if (interrupted_by_) {
    result.exit_code = 128 + *interrupted_by_;
    result.what = ending_signal_text(*interrupted_by_);
    return result;
  }
  if (!did_not_end_.empty()) {
    result.warning = did_not_end_;
    for (const Child& child : children_) {
      if (WIFEXITED(*child.status)) result.exit_code = std::max(result.exit_code, WEXITSTATUS(*child.status));
    }
    return result;
  }
  result.lost = server_->lost();
  const std::optional<LostRank> cause = server_->cause();
  if (cause) {
    static_cast<Trouble&>(result) = cause->trouble();
    // Rank 0 said so while this process was stopped.
    if (cause->rank == kParent) result.what.clear();
  } else {
    for (const Child& child : children_)
      result.exit_code = std::max(result.exit_code, WEXITSTATUS(*child.status));
  }
  return result;
}

}  // namespace lockstep::launch
