#include "lockstep/launch/guarded_folder.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/launch/signals.h"

namespace lockstep::launch {
namespace {

/// Runs in a forked copy of a process that had threads, so it may only call functions that are safe in a
/// signal handler. All signals are blocked.
[[noreturn]] void run_guardian(const char* folder, const char* emptied, int alive_fd, int grace_ms) {
  // Orphaned at once: the process must not find a child that it did not start.
  if (::fork() != 0) ::_exit(0);
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "lockstep-guard");
  ::dup2(alive_fd, 0);
  ::close_range(1, ~0U, 0);
  char none = 0;
  while (::read(0, &none, 1) < 0 && errno == EINTR) continue;
  if (::access(folder, F_OK) != 0) ::_exit(0);
  ::poll(nullptr, 0, grace_ms);
  const pid_t remover = ::vfork();
  if (remover == 0) {
    ::execl("/bin/rm", "rm", "-rf", folder, nullptr);
    ::_exit(1);
  }
  while (::waitpid(remover, nullptr, 0) < 0 && errno == EINTR) continue;
  ::_exit(::rmdir(emptied));
}

}  // namespace

GuardedFolder::GuardedFolder(std::filesystem::path folder, std::chrono::milliseconds grace,
                             std::filesystem::path emptied)
    : path_(std::move(folder)), emptied_(std::move(emptied)) {
  int ends[2];
  if (path_.empty() || ::pipe2(ends, O_CLOEXEC) != 0) return;
  const UniqueFd read_end(ends[0]);
  alive_ = UniqueFd(ends[1]);
  pid_t first = -1;
  {
    const BlockedSignals blocked;
    first = ::fork();
    if (first == 0)
      run_guardian(path_.c_str(), emptied_.c_str(), read_end.get(), static_cast<int>(grace.count()));
  }
  while (first > 0 && ::waitpid(first, nullptr, 0) < 0 && errno == EINTR) continue;
}

GuardedFolder::~GuardedFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  if (!emptied_.empty()) ::rmdir(emptied_.c_str());
}

}  // namespace lockstep::launch
