#include "lockstep/launch/child_process.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <ranges>
#include <sstream>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/tcp_socket.h"

namespace lockstep::launch {
namespace {

/// This process's environment with `added` in place of variables of the same name. Built before fork, since
/// the child must not allocate.
std::vector<std::string> merged_environment(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    // A name must not stand twice: which of the two getenv finds is up to the C library.
    const auto replaces = [&](const auto& variable) { return variable.first == name; };
    if (std::ranges::none_of(added, replaces)) all.emplace_back(text);
  }
  for (const auto& [key, value] : added) all.push_back(fmt::format("{}={}", key, value));
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Runs between fork and exec in a copy of a process that had threads, so it may only call functions that are
/// safe in a signal handler.
[[noreturn]] void exec_child(const char* program, char* const* arguments, char* const* environment,
                             pid_t parent, int null_fd, const ChildCommand& command, int exec_error_fd) {
  if (!command.in_terminal) ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, command.in_terminal ? SIGTERM : SIGKILL);
  // The parent may have died before the line above.
  if (::getppid() != parent) ::_exit(127);
  if (!command.in_terminal) ::dup2(null_fd, STDIN_FILENO);
  if (command.output_fd >= 0) ::dup2(command.output_fd, STDOUT_FILENO);
  if (command.error_fd >= 0) ::dup2(command.error_fd, STDERR_FILENO);
  // Signals that are ignored (nohup) stay so; handlers of this program become the defaults.
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
  // Outside of the terminal's foreground group writing would stop it, under `stty tostop`.
  if (!command.in_terminal) ::signal(SIGTTOU, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(program, arguments, environment);
  const int error = errno;
  if (::write(exec_error_fd, &error, sizeof error) < 0) ::_exit(126);
  ::_exit(127);
}

constexpr int kTick_ms = 100;

/// Runs in a forked copy of a process that had threads, so it may only call functions that are safe in a
/// signal handler. All signals are blocked.
[[noreturn]] void run_guardian(pid_t ward, int ward_fd, int parent_fd, std::chrono::milliseconds grace) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "lockstep-guard");
  // The ward's connections and its output must end with the ward, so no copy of them is kept open here.
  ::dup2(parent_fd, 0);
  ::dup2(ward_fd, 1);
  ::close_range(2, ~0U, 0);
  pollfd ended[] = {{0, POLLIN, 0}, {1, POLLIN, 0}};
  while (::poll(ended, 2, -1) <= 0) continue;
  // A ward that ends just before its parent may have ended because of that.
  if (ended[0].revents == 0 && ::poll(ended, 1, kTick_ms) <= 0) ::_exit(0);
  ::poll(ended + 1, 1, static_cast<int>(grace.count()));
  if (::getppid() == ward) ::kill(ward, SIGKILL);
  ::_exit(0);
}

/// Stops the child with this process, as Ctrl-Z asks; both go on after `fg`.
void stop_with_child(pid_t child) {
  // Not SIGSTOP: a child with children of its own stops those too.
  ::kill(child, SIGTSTP);
  ::kill(::getpid(), SIGSTOP);
  ::kill(child, SIGCONT);
}

/// Whether the terminal's signals reach this process and its group.
bool is_in_foreground() {
  const UniqueFd terminal(::open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY));
  return terminal && ::tcgetpgrp(terminal.get()) == ::getpgrp();
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

pid_t start_child(const ChildCommand& command) {
  const bool is_path = command.program.find('/') != std::string::npos;
  const std::string program = is_path ? command.program : find_program(command.program);
  if (program.empty()) throw Error(fmt::format("cannot start '{}': it is not in PATH", command.program));
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command.environment);
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> environment_pointers = pointers_to(environment);

  // A pipe that closes on exec: the child writes errno into it if exec fails, else the parent reads its end.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot start '{}': {}", program, std::strerror(errno)));
  const UniqueFd error_in(ends[0]);
  UniqueFd error_out(ends[1]);
  const UniqueFd null_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));

  const pid_t parent = ::getpid();
  pid_t child = -1;
  int fork_error = 0;
  {
    // The parent's handlers must not run in the child, where they would act in the parent's name.
    const BlockedSignals blocked;
    child = ::fork();
    if (child == 0) {
      exec_child(program.c_str(), argument_pointers.data(), environment_pointers.data(), parent,
                 null_fd.get(), command, error_out.get());
    }
    fork_error = errno;
  }
  if (child < 0) {
    throw Error(fmt::format("cannot start '{}': {}", program, std::strerror(fork_error)),
                "The limit of processes or memory may be reached: start fewer ranks.");
  }
  if (!command.in_terminal) ::setpgid(child, child);  // in both processes: either may run first
  error_out = UniqueFd();
  int exec_error = 0;
  ssize_t got = 0;
  do {
    got = ::read(error_in.get(), &exec_error, sizeof exec_error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof exec_error) {
    ::waitpid(child, nullptr, 0);
    throw Error(fmt::format("cannot start '{}': {}", program, std::strerror(exec_error)));
  }
  return child;
}

ChildEnd run_child(const ChildCommand& command, const std::function<void()>& tick) {
  SignalPipe signals(kPassedOn);
  return run_child(command, signals, tick);
}

ChildEnd run_child(const ChildCommand& command, SignalPipe& signals, const std::function<void()>& tick) {
  const pid_t pid = start_child(command);
  ChildGuard child(pid);
  ChildEnd end;
  while (true) {
    if (const auto status = child.status()) {
      if (WIFSIGNALED(*status)) end.killed_by = WTERMSIG(*status);
      end.exit_code = end.killed_by ? 128 + *end.killed_by : WEXITSTATUS(*status);
      return end;
    }
    if (tick) tick();
    pollfd wanted{signals.fd(), POLLIN, 0};
    ::poll(&wanted, 1, kTick_ms);
    while (const auto signal = signals.take()) {
      if (*signal == SIGCHLD) continue;
      const bool has_it = command.in_terminal && is_in_foreground();
      if (*signal == SIGTSTP && has_it) {
        ::kill(::getpid(), SIGSTOP);
        continue;
      }
      if (*signal == SIGTSTP) {
        stop_with_child(pid);
        continue;
      }
      end.interrupted_by = *signal;
      if (*signal != SIGINT || !has_it) ::kill(pid, *signal);
    }
  }
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const auto folder : std::views::split(std::string_view(path == nullptr ? "" : path), ':')) {
    if (folder.empty()) continue;
    const std::string candidate = fmt::format("{}/{}", std::string_view(folder.begin(), folder.end()), name);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::vector<std::string> process_status(int64_t pid) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", pid));
  // The name stands in parentheses, and may itself hold blanks and parentheses.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  return {std::istream_iterator<std::string>(fields), {}};
}

void outlive_parent_by(std::chrono::milliseconds grace) {
  const pid_t parent = ::getppid();
  const UniqueFd parent_fd(static_cast<int>(::syscall(SYS_pidfd_open, parent, 0)));
  const pid_t ward = ::getpid();
  const UniqueFd ward_fd(static_cast<int>(::syscall(SYS_pidfd_open, ward, 0)));
  // If the parent has ended meanwhile, its number may be another process's.
  if (!parent_fd || !ward_fd || ::getppid() != parent) return;
  pid_t guardian = -1;
  {
    const BlockedSignals blocked;
    guardian = ::fork();
    if (guardian == 0) run_guardian(ward, ward_fd.get(), parent_fd.get(), grace);
  }
  if (guardian > 0) ::prctl(PR_SET_PDEATHSIG, 0);
}

}  // namespace lockstep::launch
