#include <cstdio>
#include <cstdlib>

#include <unistd.h>

#include "lockstep/base/allocator.h"

#include "commands.h"

namespace {

/// LibTorch would take down its thousands of operators one by one. Handlers run in reverse order, so this one
/// follows all that the program itself leaves to the exit.
void skip_destructors_from_before_main(int exit_code, void* /*unused*/) {
  std::fflush(nullptr);
  ::_exit(exit_code);
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::keep_freed_pages();
  ::on_exit(skip_destructors_from_before_main, nullptr);
  return lockstep::cli::run_program({argv, argv + argc});
}
