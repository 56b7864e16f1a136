#pragma once

#include <functional>
#include <optional>

#include "lockstep/launch/child_process.h"

namespace lockstep::launch {

/// How a program that was run as a child ended.
struct ChildEnd {
  /// Its exit code; 128 + signal if a signal ended it.
  int exit_code = 0;
  /// The signal that told this process to end meanwhile: SIGINT, SIGTERM or SIGHUP.
  std::optional<int> interrupted_by;
};

/// Runs a program and waits for its end; calls `tick`, if given, ten times a second. Meanwhile SIGINT,
/// SIGTERM and SIGHUP go to the child, which ends in its own order, and Ctrl-Z stops it too. Call in the main
/// thread, one call at a time. Throws Error if the program cannot be started.
ChildEnd run_child(const ChildCommand& command, const std::function<void()>& tick = {});

}  // namespace lockstep::launch
