#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/number_range.h"

namespace CLI {
class App;
}  // namespace CLI

namespace lockstep::cli {

/// The arguments that started the program, its name first.
using Arguments = std::vector<std::string>;

/// When a flag is read. One that nothing would read is refused.
struct FlagUse {
  /// Beside this flag only; empty: always.
  const char* needs = "";
  /// Not beside this flag.
  const char* never_beside = "";
  /// The modes of the command (Flags::set_modes) in which it is.
  std::vector<std::string> modes = {};
};

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
  /// Empty: that of the group.
  std::optional<FlagUse> use = {};
  /// Whether a callback's numbers are whole; other flags have a type.
  bool whole = false;
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
  /// Lists the flags added from here on under `title`; `use`: of each that has none of its own.
  void begin_group(const std::string& title, FlagUse use = {}) {
    group_ = title;
    group_use_ = std::move(use);
  }
  /// Flags each of which turns the command to another use, in which it reads those flags only that say so.
  void set_modes(std::vector<std::string> modes) { modes_ = std::move(modes); }

  /// Adds a flag that stores into `value`, which outlives parsing: a string, an int, int64_t, uint64_t or
  /// double, an optional or a list of these. A name without dashes is a positional argument. What `value`
  /// holds is the default and is shown in the help, unless `help` ends with a default in brackets.
  template <typename Value>
  void add(const std::string& name, Value& value, const std::string& help, FlagForm form = {});
  /// A flag without a value, which turns `value` to the opposite of what it is.
  void add_switch(const std::string& name, bool& value, const std::string& help,
                  std::optional<FlagUse> use = {});
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
  /// After parsing: throws ConfigError where the user gave a flag that nothing reads beside the others:
  /// "--steps has no effect without --simulate".
  void check_uses() const;
  /// The same for flags that the files rule out, of which `where` is all behind the effect.
  void refuse(std::initializer_list<const char*> names, const std::string& where,
              const std::string& advice) const;
  /// After parsing: stores `text` as if the user had given it.
  void set(const std::string& name, const std::string& text);

 private:
  /// A flag without a value, which calls `turn`.
  void add_flag(const std::string& name, std::function<void()> turn, const std::string& help);
  /// `name`: as in add(), "-o,--output".
  void keep_use(const std::string& name, const std::optional<FlagUse>& use) {
    uses_.emplace_back(name.substr(name.find(',') + 1), use.value_or(group_use_));
  }

  CLI::App& command_;
  std::string group_ = "Options";
  FlagUse group_use_;
  std::vector<std::string> modes_;
  /// By name, in the order in which they were added.
  std::vector<std::pair<std::string, FlagUse>> uses_;
  PassedOn* passed_on_ = nullptr;
};

}  // namespace lockstep::cli
