#pragma once

#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace lockstep::launch {

struct ChildCommand {
  /// A path, or a name to be looked for in PATH.
  std::string program;
  /// [0] is the name that the program sees.
  std::vector<std::string> arguments;
  /// Added to this process's environment, or replacing what is there.
  std::vector<std::pair<std::string, std::string>> environment;
};

/// Starts a program that dies with the calling thread: in a process group of its own (signals of the terminal
/// do not reach it), signals as a new process expects them, input from /dev/null, output where this process's
/// goes. Throws Error that names the program.
pid_t start_child(const ChildCommand& command);

/// Where PATH has this program; empty when nowhere.
std::string find_program(const std::string& name);

}  // namespace lockstep::launch
