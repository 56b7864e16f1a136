#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/number_range.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep::cli {

/// The arguments that started the program, its name first.
using Arguments = std::vector<std::string>;

/// How a flag takes its value.
struct FlagForm {
  /// Placeholder for the value in the help, as FILE; empty: the type.
  const char* value = "";
  bool required = false;
  /// Lists only: takes a single value instead of several separated by commas.
  bool single = false;
  /// Lists only: one value each time it is given.
  bool repeated = false;
  /// The values allowed; empty: any.
  std::vector<std::string> one_of = {};
  /// The numbers allowed; every flag for a number says them, and takes those of its type.
  std::optional<NumberRange> numbers = {};
};

/// Words of a command line that a command passes on to another one.
struct PassedOn {
  /// Before the first "--", without the flags of the command itself; and behind it.
  Arguments before;
  Arguments behind;
  /// There was a "--".
  bool divided = false;
};

/// The flags of one sub-command. A value that a flag does not take ends parsing with one sentence, whatever
/// the flag: its name, what it takes, and the value. CLI11, whose headers take seconds to parse, is included
/// in flags.cpp alone.
class Flags {
 public:
  explicit Flags(CLI::App& command) : command_(command) {}

  /// Text below the help; begins with "Examples:".
  void set_examples(const std::string& text);
  /// Lists the flags added from here on under `title`.
  void begin_group(const std::string& title) { group_ = title; }

  /// Adds a flag that stores into `value`, which outlives parsing: a string, an int, int64_t, uint64_t or
  /// double, an optional or a list of these. A name without dashes is a positional argument. What `value`
  /// holds is the default and is shown in the help, unless `help` ends with a default in brackets.
  template <typename Value>
  void add(const std::string& name, Value& value, const std::string& help, const FlagForm& form = {});
  /// A flag without a value, which turns `value` to the opposite of what it is.
  void add_switch(const std::string& name, bool& value, const std::string& help);
  /// A flag that calls `take` with its value, or where `is_switch` with "on".
  void add_callback(const std::string& name, bool is_switch, std::function<void(const std::string&)> take,
                    const std::string& help, const FlagForm& form = {});

  /// Before parsing: has flags that the command lacks, each with its values, and all that stands behind "--"
  /// put into `words`, which outlives parsing, and parses the others only.
  void pass_on(PassedOn& words) { passed_on_ = &words; }
  /// The arguments that the command parses itself; the others are passed on.
  Arguments keep_own(const Arguments& arguments);

  /// After parsing: whether the user gave the flag.
  bool given(const std::string& name) const;
  /// After parsing: stores `text` as if the user had given it.
  void set(const std::string& name, const std::string& text);

 private:
  /// Has the option refuse what the form does not allow.
  static void check_values(CLI::Option& option, const FlagForm& form, std::optional<NumberRange> numbers,
                           bool whole);
  /// A flag without a value, which calls `turn`.
  void add_flag(const std::string& name, std::function<void()> turn, const std::string& help);

  CLI::App& command_;
  std::string group_ = "Options";
  /// Null: nothing is passed on.
  PassedOn* passed_on_ = nullptr;
};

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

  /// Parses, runs the sub-command, and prints what is wrong with either. Returns the exit code.
  int run(int argc, char** argv);

  /// The sub-command that the arguments name; empty where they asked for help, which is printed. Throws
  /// ConfigError.
  RunCommand parse(const Arguments& arguments);

 private:
  /// CLI11 would take -output for -o with the value "utput".
  void refuse_long_names_behind_one_dash(const Arguments& arguments) const;

  struct Command;
  std::unique_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace lockstep::cli
