#include "lockstep/launch/child_run.h"

#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/launch/signals.h"

namespace lockstep::launch {
namespace {

constexpr std::initializer_list<int> kPassedOn{SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGTSTP};
constexpr int kTick_ms = 100;

/// Stops the child with this process, as Ctrl-Z asks; both go on after `fg`.
void stop_with_child(pid_t child) {
  // Not SIGSTOP: a child with children of its own stops those too.
  ::kill(child, SIGTSTP);
  ::kill(::getpid(), SIGSTOP);
  ::kill(child, SIGCONT);
}

/// Kills the child where waiting for it was left by an exception.
class ChildGuard {
 public:
  explicit ChildGuard(pid_t pid) : pid_(pid) {}
  ~ChildGuard() {
    if (ended_) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  ChildGuard(const ChildGuard&) = delete;
  ChildGuard& operator=(const ChildGuard&) = delete;

  /// Its wait status, once it has ended.
  std::optional<int> status() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    ended_ = true;
    return status;
  }

 private:
  pid_t pid_;
  bool ended_ = false;
};

}  // namespace

ChildEnd run_child(const ChildCommand& command, const std::function<void()>& tick) {
  SignalPipe signals(kPassedOn);
  const pid_t pid = start_child(command);
  ChildGuard child(pid);
  ChildEnd end;
  while (true) {
    if (const auto status = child.status()) {
      end.exit_code = WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
      return end;
    }
    if (tick) tick();
    pollfd wanted{signals.fd(), POLLIN, 0};
    ::poll(&wanted, 1, kTick_ms);
    while (const auto signal = signals.take()) {
      if (*signal == SIGCHLD) continue;
      if (*signal == SIGTSTP) {
        stop_with_child(pid);
        continue;
      }
      end.interrupted_by = *signal;
      ::kill(pid, *signal);
    }
  }
}

}  // namespace lockstep::launch
