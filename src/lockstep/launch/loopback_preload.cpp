// A plugin preloaded into mpirun (LD_PRELOAD) where all ranks are on this host: redirects bind() to the
// loopback address. Open MPI's mpirun binds its port for other hosts' daemons to every address (version 4) or
// to that of an interface (5), and no setting changes that (docs/security.md). It also keeps out other users,
// whose connections, open and silent, would keep mpirun from starting ranks and from ending, and reports
// which process is which rank and how each ends, about which mpirun's own messages are silent every other
// time. In other programs, which inherit the variable, this library only takes itself out of it.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "lockstep/base/peer_user.h"

namespace {

/// The names of mpirun: Debian's, Open MPI 4's own, and those of Open MPI 5, whose mpirun turns into prterun.
bool is_launcher() {
  constexpr std::string_view kNames[] = {"mpirun",  "mpirun.openmpi", "mpiexec", "mpiexec.openmpi",
                                         "orterun", "prterun",        "prte"};
  return std::ranges::find(kNames, std::string_view(program_invocation_short_name)) != std::end(kNames);
}

__attribute__((constructor)) void leave_no_trace() {
  const char* preloaded = std::getenv("LD_PRELOAD");
  Dl_info self{};
  if (is_launcher() || preloaded == nullptr) return;
  if (::dladdr(reinterpret_cast<void*>(&is_launcher), &self) == 0) return;
  const size_t length = std::strlen(self.dli_fname);
  if (std::strncmp(preloaded, self.dli_fname, length) != 0) return;
  if (preloaded[length] == ':') {
    ::setenv("LD_PRELOAD", preloaded + length + 1, 1);
  } else if (preloaded[length] == '\0') {
    ::unsetenv("LD_PRELOAD");
  }
}

/// Supervisor::take_report reads these lines and takes them out.
template <typename... Values>
void report(const char* format, Values... values) {
  char text[100];
  const int length = std::snprintf(text, sizeof text, format, values...);
  if (::write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) return;
}

}  // namespace

/// The system's accept(), but for connections of other users, which it ends.
extern "C" __attribute__((visibility("default"))) int accept(int fd, sockaddr* address, socklen_t* length) {
  const auto accepted = static_cast<int>(::syscall(SYS_accept4, fd, address, length, 0));
  if (accepted < 0 || !is_launcher()) return accepted;
  const lockstep::PeerUser user = lockstep::peer_user(accepted);
  if (user == lockstep::PeerUser::kOwn) return accepted;
  sockaddr_in other{};
  socklen_t other_length = sizeof other;
  if (user == lockstep::PeerUser::kOther &&
      ::getpeername(accepted, reinterpret_cast<sockaddr*>(&other), &other_length) == 0)
    report("\x1estranger at port %d\n", ntohs(other.sin_port));
  ::close(accepted);
  errno = EAGAIN;
  return -1;
}

/// The system's execve(); mpirun calls it in the process that becomes a rank.
extern "C" __attribute__((visibility("default"))) int execve(const char* path, char* const arguments[],
                                                             char* const environment[]) noexcept {
  constexpr std::string_view kRank = "OMPI_COMM_WORLD_RANK=";
  for (char* const* entry = environment; is_launcher() && entry != nullptr && *entry != nullptr; ++entry) {
    if (std::string_view(*entry).starts_with(kRank))
      report("\x1e%d is rank %d\n", ::getpid(), std::atoi(*entry + kRank.size()));
  }
  return static_cast<int>(::syscall(SYS_execve, path, arguments, environment));
}

/// The system's waitpid().
extern "C" __attribute__((visibility("default"))) pid_t waitpid(pid_t pid, int* status, int options) {
  int ended_with = 0;
  const auto ended = static_cast<pid_t>(::syscall(SYS_wait4, pid, &ended_with, options, nullptr));
  if (status != nullptr && ended > 0) *status = ended_with;
  if (is_launcher() && ended > 0 && ended_with != 0) report("\x1e%d ended with %d\n", ended, ended_with);
  return ended;
}

/// The system's bind(), but for the address.
extern "C" __attribute__((visibility("default"))) int bind(int fd, const sockaddr* address,
                                                           socklen_t length) noexcept {
  sockaddr_storage changed{};
  if (is_launcher() && length <= sizeof changed) {
    std::memcpy(&changed, address, length);
    auto* ip4 = reinterpret_cast<sockaddr_in*>(&changed);
    auto* ip6 = reinterpret_cast<sockaddr_in6*>(&changed);
    if (changed.ss_family == AF_INET) ip4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (changed.ss_family == AF_INET6) ip6->sin6_addr = in6addr_loopback;
    address = reinterpret_cast<const sockaddr*>(&changed);
  }
  return static_cast<int>(::syscall(SYS_bind, fd, address, length));
}
