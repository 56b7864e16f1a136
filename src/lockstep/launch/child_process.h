#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "lockstep/launch/signals.h"

namespace lockstep::launch {

struct ChildCommand {
  /// A path, or a name that is looked up in PATH.
  std::string program;
  /// [0] is the name that the program sees itself by.
  std::vector<std::string> arguments;
  /// Added to this process's environment; replace variables of the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  /// Open for writing: receive the program's output and its errors; -1: they go where this process's own go.
  int output_fd = -1;
  int error_fd = -1;
  /// Lets it read this process's input and belong to its group, as a command of a shell: signals of the
  /// terminal reach it directly.
  bool in_terminal = false;
};

/// Starts a program that dies with the calling thread (one in the terminal gets SIGTERM then). Unless it is
/// in the terminal, it gets a process group of its own (signals of the terminal do not reach it) and input
/// from /dev/null. Its signal handling is the default. Throws Error that names the program.
pid_t start_child(const ChildCommand& command);

/// How a program that was run as a child ended.
struct ChildEnd {
  /// Its exit code; 128 + signal if a signal ended it.
  int exit_code = 0;
  /// The signal that ended it.
  std::optional<int> killed_by = {};
  /// The signal that told this process to end meanwhile: SIGINT, SIGTERM or SIGHUP.
  std::optional<int> interrupted_by = {};
};

/// Runs a program and waits for its end; calls `tick`, if given, ten times a second. Meanwhile SIGINT,
/// SIGTERM and SIGHUP go to the child, which ends in its own order, and Ctrl-Z stops it too; Ctrl-C is not
/// passed on to a child in the terminal, which has it already. Call in the main thread, one call at a time.
/// Throws Error if the program cannot be started.
ChildEnd run_child(const ChildCommand& command, const std::function<void()>& tick = {});

inline constexpr std::initializer_list<int> kPassedOn{SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGTSTP};
/// The same for one of several programs, between which `signals`, those of kPassedOn, wait for the next one.
ChildEnd run_child(const ChildCommand& command, SignalPipe& signals, const std::function<void()>& tick);

/// The path of the program in PATH; empty if it is not there.
std::string find_program(const std::string& name);

/// The fields of /proc/PID/stat behind the name: [0] the state, [1] the parent's id, see proc(5). Empty if
/// there is no such process.
std::vector<std::string> process_status(int64_t pid);

/// Lets this process outlive the parent that it was to die with (PR_SET_PDEATHSIG), but only by `grace`: a
/// small process, the guardian, kills it then, even if it is stopped. The guardian ends with this process.
/// Call from the main thread. Changes nothing on a system without pidfds.
void outlive_parent_by(std::chrono::milliseconds grace);

}  // namespace lockstep::launch
