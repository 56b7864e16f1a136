#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lockstep/base/allocator.h"
#include "lockstep/base/error.h"

#include "commands.h"

namespace {

/// LibTorch would take down its thousands of operators one by one. Handlers run in reverse order, so this one
/// follows all that the program itself leaves to the exit.
void skip_destructors_from_before_main(int exit_code, void* /*unused*/) {
  std::fflush(nullptr);
  ::_exit(exit_code);
}

/// Opens those that are closed, so that no file gets their number. Standard output fails to be written then.
void require_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is taken.
    if (::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0) ::_exit(lockstep::kExitFailed);
  }
}

/// Runs before the libraries start, of which LibTorch's MKL ends a process without a working folder.
void require_surroundings() {
  require_standard_streams();
  char path[PATH_MAX];
  if (::syscall(SYS_getcwd, path, sizeof path) >= 0 || errno != ENOENT) return;
  constexpr std::string_view kText =
      "lockstep: error: the working folder is gone\n"
      "  It was removed: change to another folder.\n";
  if (::write(STDERR_FILENO, kText.data(), kText.size()) >= 0) ::_exit(lockstep::kExitUsage);
  ::_exit(lockstep::kExitFailed);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = require_surroundings;

}  // namespace

int main(int argc, char** argv) {
  lockstep::keep_freed_pages();
  ::on_exit(skip_destructors_from_before_main, nullptr);
  return lockstep::cli::run_program({argv, argv + argc});
}
