#pragma once

#include <cstdint>
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

/// Runs the command that the arguments name, the program's name first, and prints what is wrong with either.
/// Returns the exit code.
int run_program(const Arguments& arguments);

// The sub-commands, each in the file of its name; plot and show are in report.cpp.

RunCommand add_bench(Flags& flags);
RunCommand add_compare(Flags& flags);
RunCommand add_train(Flags& flags);
RunCommand add_verify(Flags& flags);
RunCommand add_collectives(Flags& flags);
RunCommand add_record(Flags& flags);
RunCommand add_import(Flags& flags);
RunCommand add_info(Flags& flags);
RunCommand add_diff(Flags& flags);
RunCommand add_report(Flags& flags);
RunCommand add_show(Flags& flags);
RunCommand add_predict(Flags& flags);
RunCommand add_plot(Flags& flags);
RunCommand add_feed(Flags& flags);
RunCommand add_topo(Flags& flags);
RunCommand add_docs(Flags& flags);
RunCommand add_completion(Flags& flags, const CommandLine& commands);

/// The text of `info model NAME` about a built-in network or one from a file: its samples and batches, and
/// what decides how it scales. Throws ConfigError.
std::string model_text(const std::string& name);

/// Values of each trainable tensor of a network, in order of registration. Throws ConfigError.
std::vector<int64_t> parameter_values(const std::string& name);

/// Trainable values of the built-in network that a published table calls `name`; 0: there is none.
double published_parameters(const std::string& name);

}  // namespace lockstep::cli
