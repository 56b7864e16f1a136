#include "lockstep/launch/guardian.h"

#include <csignal>
#include <ctime>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lockstep/launch/signals.h"
#include "lockstep/launch/tcp_socket.h"

namespace lockstep::launch {
namespace {

/// A copy of a process that had threads, and it stays one: only what is safe in a signal handler. All signals
/// are blocked.
[[noreturn]] void guard(pid_t ward, int parent_fd, timespec grace) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "lockstep-guard");
  // The ward's connections must end with the ward, and its output too.
  ::dup2(parent_fd, 0);
  ::close_range(1, ~0U, 0);
  pollfd parent{0, POLLIN, 0};
  while (::getppid() == ward && ::poll(&parent, 1, -1) <= 0) continue;
  ::nanosleep(&grace, nullptr);
  if (::getppid() == ward) ::kill(ward, SIGKILL);
  ::_exit(0);
}

}  // namespace

void outlive_parent_by(std::chrono::milliseconds grace) {
  const pid_t parent = ::getppid();
  const UniqueFd parent_fd(static_cast<int>(::syscall(SYS_pidfd_open, parent, 0)));
  // Had the parent ended meanwhile, the number could be another's.
  if (!parent_fd || ::getppid() != parent) return;
  const timespec time{.tv_sec = grace.count() / 1000, .tv_nsec = grace.count() % 1000 * 1'000'000};
  const pid_t ward = ::getpid();
  pid_t guardian = -1;
  {
    const BlockedSignals blocked;
    guardian = ::fork();
    if (guardian == 0) guard(ward, parent_fd.get(), time);
  }
  if (guardian > 0) ::prctl(PR_SET_PDEATHSIG, 0);
}

}  // namespace lockstep::launch
