#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/number_range.h"

namespace CLI {
class App;
}  // namespace CLI

namespace lockstep::cli {

/// The arguments that started the program, its name first.
using Arguments = std::vector<std::string>;

/// How a flag takes its value.
struct FlagForm {
  /// Placeholder for the value in the help, as FILE; empty: the type.
  const char* value = "";
  bool required = false;
  /// Value of a flag that is given without one; empty: it needs one.
  const char* alone = "";
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
/// the flag: its name, what it takes, and the value. CLI11's headers take seconds to parse, so only flags.cpp
/// and command_line.cpp include them.
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
  void add(const std::string& name, Value& value, const std::string& help, FlagForm form = {});
  /// A flag without a value, which turns `value` to the opposite of what it is.
  void add_switch(const std::string& name, bool& value, const std::string& help);
  /// A flag that calls `take` with its value, or where `is_switch` with "on".
  void add_callback(const std::string& name, bool is_switch, std::function<void(const std::string&)> take,
                    const std::string& help, const FlagForm& form = {});

  /// Lets the command take flags that it lacks, and a "--": parsing puts them into `words`, which outlives
  /// it.
  void pass_on(PassedOn& words);
  /// Lets the command take a "--" and what is behind it; a flag that it lacks stays wrong.
  void take_behind_divider(PassedOn& words) { passed_on_ = &words; }
  /// Null: nothing is passed on.
  PassedOn* passed_on() const { return passed_on_; }

  /// After parsing: whether the user gave the flag.
  bool given(const std::string& name) const;
  /// After parsing: throws ConfigError where the user gave one of them: "--steps has no effect without
  /// --simulate", of which `where` is all behind the effect.
  void refuse(std::initializer_list<const char*> names, const std::string& where,
              const std::string& advice) const;
  /// After parsing: stores `text` as if the user had given it.
  void set(const std::string& name, const std::string& text);

 private:
  /// A flag without a value, which calls `turn`.
  void add_flag(const std::string& name, std::function<void()> turn, const std::string& help);

  CLI::App& command_;
  std::string group_ = "Options";
  PassedOn* passed_on_ = nullptr;
};

}  // namespace lockstep::cli
