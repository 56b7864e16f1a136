#include "lockstep/launch/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <thread>

#include <fcntl.h>
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
/// Time for messages that the ranks of a failed launcher have sent.
constexpr std::chrono::seconds kLastMessages{3};
constexpr std::chrono::seconds kKillPatience{5};
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
  // The end of a rank shows on its connection before the system reports the reason to this process: seconds
  // before, where memory is short. How ranks of mpirun ended shows only in the end.
  if (!options.through_mpirun) server.end_deferral = options.timeout;
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

void Supervisor::start(ChildCommand command, std::optional<int> rank) {
  UniqueFd errors_out;
  if (int ends[2]; !rank && ::pipe2(ends, O_CLOEXEC) == 0) {
    launcher_errors_ = UniqueFd(ends[0]);
    errors_out = UniqueFd(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    command.error_fd = ends[1];
  }
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
  pollfd wanted[] = {
      {signals_.fd(), POLLIN, 0}, {cause_known_.fd(), POLLIN, 0}, {launcher_errors_.get(), POLLIN, 0}};
  ::poll(wanted, 3, timeout_ms);
  cause_known_.take();
  read_launcher();
}

void Supervisor::read_launcher() {
  char text[4096];
  ssize_t got = 0;
  while (launcher_errors_ && (got = ::read(launcher_errors_.get(), text, sizeof text)) > 0)
    launcher_said_.append(text, static_cast<size_t>(got));
  // The end of the pipe would keep poll() awake.
  if (got == 0) launcher_errors_ = UniqueFd();
  size_t report = 0;
  while ((report = launcher_said_.find('\x1e')) != std::string::npos) {
    const size_t end = launcher_said_.find('\n', report);
    if (end == std::string::npos) break;
    take_report(launcher_said_.c_str() + report + 1);
    launcher_said_.erase(report, end + 1 - report);
  }
  report = std::min(report, launcher_said_.size());
  for (size_t written = 0; written < report;) {
    const ssize_t now = ::write(STDERR_FILENO, launcher_said_.data() + written, report - written);
    if (now <= 0) break;
    written += static_cast<size_t>(now);
  }
  launcher_said_.erase(0, report);
}

void Supervisor::take_report(const char* report) {
  int pid = 0;
  int number = 0;
  if (std::sscanf(report, "stranger at port %d", &number) == 1)
    server_->name_stranger(fmt::format("{}:{} belongs to another user", kLoopback, number));
  if (std::sscanf(report, "%d is rank %d", &pid, &number) == 2 && number >= 0 && number < options_.ranks)
    ranks_of_launcher_[pid] = number;
  if (std::sscanf(report, "%d ended with %d", &pid, &number) == 2 && ranks_of_launcher_.contains(pid))
    ends_.emplace_back(pid, number);
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
  const bool was_killed = WIFSIGNALED(*child.status);
  const bool is_this_ones_doing = was_killed && (stage_ == Stage::kTerminating || stage_ == Stage::kKilling);
  const bool is_consequence = !was_killed && server_->cause();
  if (is_this_ones_doing || is_consequence) return;
  server_->declare_lost(ended_rank(*child.rank, child.pid, *child.status));
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
  for (const int64_t pid : server_->connected_pids()) {
    ::kill(static_cast<pid_t>(pid), SIGKILL);
    ended_ranks_ = true;
  }
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

std::optional<LostRank> Supervisor::first_end() {
  for (const auto& [pid, status] : ends_) {
    const int rank = ranks_of_launcher_[pid];
    // mpirun reaps in the order of its ranks: one that left because of another may be seen before that.
    if (WIFSIGNALED(status) || !server_->was_informed(rank)) return ended_rank(rank, pid, status);
  }
  return std::nullopt;
}

Supervision Supervisor::result() {
  Supervision result;
  result.exit_code = kExitDone;
  if (interrupted_by_) {
    result.exit_code = 128 + *interrupted_by_;
    result.what = ending_signal_text(*interrupted_by_);
    return result;
  }
  const std::optional<int> launcher = options_.through_mpirun ? children_.front().status : std::nullopt;
  const bool launcher_failed = launcher.value_or(0) != 0;
  if (!did_not_end_.empty()) {
    result.warning = did_not_end_;
    for (const Child& child : children_) {
      if (WIFEXITED(*child.status)) result.exit_code = std::max(result.exit_code, WEXITSTATUS(*child.status));
    }
    return result;
  }
  read_launcher();
  // Where this process killed ranks, it may have been one of those.
  if (launcher_failed && !ended_ranks_) {
    if (const auto first = first_end()) server_->declare_first_lost(*first);
  }
  // Messages from the ranks of a failed launcher may still be on their way.
  if (launcher_failed && !server_->cause()) server_->wait_finished(kLastMessages);

  result.lost = server_->lost();
  const std::optional<LostRank> cause = server_->cause();
  if (launcher && WIFSIGNALED(*launcher) && stage_ != Stage::kTerminating && stage_ != Stage::kKilling) {
    const bool is_complete = server_->wait_finished({});
    (is_complete ? result.warning : result.what) =
        fmt::format("mpirun was killed by {}", signal_name(WTERMSIG(*launcher)));
    if (!is_complete) result.exit_code = kExitFailed;
  } else if (cause) {
    static_cast<Trouble&>(result) = cause->trouble();
  } else if (launcher_failed && server_->wait_finished({})) {
    // The ranks said goodbye and then exited with the outcome of their work, unless a signal ended one.
    const int code = WEXITSTATUS(*launcher);
    if (code > 128) result.warning = fmt::format("mpirun exited with code {} after the work was done", code);
    if (code < 128) result.exit_code = code;
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
