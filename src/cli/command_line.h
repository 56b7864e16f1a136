#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "flags.h"

namespace lockstep::cli {

/// Carries out a sub-command whose flags were parsed. Returns the exit code.
using RunCommand = std::function<int(const Arguments& arguments)>;
/// Adds the flags of a sub-command; what it returns keeps their values.
using AddCommand = std::function<RunCommand(Flags& flags)>;

/// The command line of a program with sub-commands.
class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& version, const std::string& footer);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void add(const char* name, const char* description, const AddCommand& add_flags);

  /// The sub-command that the arguments name; empty if they ask for help, which is printed. Throws
  /// ConfigError.
  RunCommand parse(const Arguments& arguments);

  /// Completions of the last of `arguments`, which is the beginning of a word: commands, flags, or the entry
  /// of `values` for the flag before it ("--model").
  std::vector<std::string> completions(const Arguments& arguments,
                                       const std::map<std::string, std::vector<std::string>>& values) const;

 private:
  struct Command;
  std::unique_ptr<CLI::App> app_;
  std::list<Command> commands_;
};

}  // namespace lockstep::cli
