#include "flags.h"

#include <algorithm>
#include <cstdint>
#include <sstream>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "lockstep/base/assert.h"
#include "lockstep/base/names.h"

#include "console.h"

namespace lockstep::cli {
namespace {

/// The type of one value: that of the elements of lists, and that of optional values.
template <typename Value>
struct Form {
  using One = Value;
  static constexpr bool kOptional = false;
  static constexpr bool kList = false;
};
template <typename Value>
struct Form<std::optional<Value>> : Form<Value> {
  static constexpr bool kOptional = true;
};
template <typename Value>
struct Form<std::vector<Value>> : Form<Value> {
  static constexpr bool kList = true;
};

/// The numbers of `range` that a value of the type can hold.
template <typename Number>
NumberRange within_type(NumberRange range) {
  if constexpr (std::is_integral_v<Number>)
    range.most = std::min(range.most, static_cast<double>(std::numeric_limits<Number>::max()));
  return range;
}

std::string help_of(const CLI::App& command) {
  return command.get_parent() == nullptr ? "lockstep --help"
                                         : fmt::format("lockstep {} --help", command.get_name());
}

std::string help_advice(const CLI::App& command) {
  return fmt::format("'{}' explains every flag.", help_of(command));
}

/// "--batch=4", "-batch" and "--batch" are "batch".
std::string name_in(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return std::string(word.substr(0, word.find('=')));
}

/// Whether the command has the flag that a word names, by its long or its short name.
bool has_flag(const CLI::App& command, const std::string& word) {
  const std::string name = name_in(word);
  return std::ranges::any_of(command.get_options(), [&](const CLI::Option* option) {
    return std::ranges::find(option->get_lnames(), name) != option->get_lnames().end() ||
           std::ranges::find(option->get_snames(), name) != option->get_snames().end();
  });
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

/// A word that the command has no use for.
ConfigError unexpected(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-')) {
    return ConfigError(fmt::format("'lockstep {}' takes no argument '{}'", command.get_name(), word),
                       help_advice(command));
  }
  std::vector<std::string> near = nearest_names(name_in(word), flags_of(command));
  for (std::string& name : near) name.insert(0, "--");
  const std::string guess = near.empty() ? "" : fmt::format("; did you mean {}?", join_alternatives(near));
  return ConfigError(fmt::format("unknown flag '{}'{}", word, guess), help_advice(command));
}

/// No command was named.
ConfigError without_command(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  if (words.empty()) return ConfigError("a command is missing, as in 'lockstep bench'", help_advice(app));
  if (words.front().starts_with('-')) {
    return ConfigError(
        fmt::format("'{}' stands before a command, as in 'lockstep bench {}'", words.front(), words.front()),
        help_advice(app));
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  try {
    throw_unknown_name("command", words.front(), names, help_of(app));
  } catch (const ConfigError& error) {
    return error;
  }
}

/// CLI11's error in lockstep's words. Its text begins with the option's name, which its class does not have.
ConfigError reworded(const CLI::ParseError& error, const CLI::App& app) {
  if (app.get_subcommands().empty()) return without_command(app);
  const CLI::App& command = *app.get_subcommands().front();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::vector<std::string> words = command.remaining();
    if (words.empty()) words = app.remaining();
    return unexpected(command, words.front());
  }
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find_first_of(": "));
  const CLI::Option* option = command.get_option_no_throw(name);
  if (option == nullptr) return ConfigError(text, help_advice(command));
  const std::string& help = option->get_description();
  const std::string meaning = help.substr(0, std::min({help.find(" ["), help.find(":\n")}));
  std::string sentence = name + text.substr(std::min(name.size() + 1, text.size()));
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    sentence = fmt::format("'lockstep {}' needs {}: {}", command.get_name(), name, meaning);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    sentence = option->count() > 1 ? fmt::format("{} takes one value, not {}", name, option->count())
                                   : fmt::format("{} needs a value: {}", name, meaning);
  }
  return ConfigError(sentence, help_advice(command));
}

}  // namespace

void Flags::set_examples(const std::string& text) {
  command_.footer(text);
}

void Flags::check_values(CLI::Option& option, const FlagForm& form, std::optional<NumberRange> numbers,
                         bool whole) {
  option.transform(CLI::Validator(
      [one_of = form.one_of, numbers, whole](std::string& text) {
        const auto refused = [&](const std::string& allowed) {
          return fmt::format("takes {}, not '{}'", allowed, text);
        };
        // An unset variable of a script: --resume "$FILE" must not mean that the flag was not given.
        if (text.empty()) return std::string("was given an empty value");
        if (!one_of.empty() && std::ranges::find(one_of, text) == one_of.end())
          return refused(join_alternatives(one_of));
        if (!numbers) return std::string();
        const auto take = [&](const auto& number) {
          if (!number) return refused(describe(*numbers, whole));
          text = fmt::format("{}", *number);
          return std::string();
        };
        return whole ? take(parse_whole(text, *numbers)) : take(parse_number(text, *numbers));
      },
      ""));
}

template <typename Value>
void Flags::add(const std::string& name, Value& value, const std::string& help, const FlagForm& form) {
  using One = typename Form<Value>::One;
  CLI::Option& option = *command_.add_option(name, value, help)->group(group_);
  if constexpr (Form<Value>::kList) {
    // A shell's glob gives positional arguments one by one, and file names may contain commas.
    const bool positional = !name.starts_with('-');
    if (form.single || form.repeated) option.expected(1);
    if (form.repeated) option.take_all();
    if (!form.single && !form.repeated && !positional) option.delimiter(',');
  }
  if constexpr (!Form<Value>::kOptional) {
    // A default in words says more than the 0 or the empty text that stands for it.
    if (!help.ends_with(']')) option.capture_default_str();
    if constexpr (std::is_same_v<Value, double>) {
      if (form.numbers && form.numbers->unit == Unit::kShare)
        option.default_str(fmt::format("{:g}%", 100 * value));
    }
  }
  if constexpr (std::is_arithmetic_v<One>) {
    LOCKSTEP_ASSERT(form.numbers);
    check_values(option, form, within_type<One>(form.numbers.value_or(NumberRange())),
                 std::is_integral_v<One>);
  } else {
    check_values(option, form, std::nullopt, false);
  }
  if (*form.value != '\0') option.type_name(form.value);
  if (form.required) option.required();
}

// All types of values that commands have; the template stays here because CLI11's headers do.
template void Flags::add(const std::string&, std::string&, const std::string&, const FlagForm&);
template void Flags::add(const std::string&, int&, const std::string&, const FlagForm&);
template void Flags::add(const std::string&, int64_t&, const std::string&, const FlagForm&);
template void Flags::add(const std::string&, uint64_t&, const std::string&, const FlagForm&);
template void Flags::add(const std::string&, double&, const std::string&, const FlagForm&);
template void Flags::add(const std::string&, std::optional<int>&, const std::string&, const FlagForm&);
template void Flags::add(const std::string&, std::optional<double>&, const std::string&, const FlagForm&);
template void Flags::add(const std::string&, std::vector<int>&, const std::string&, const FlagForm&);
template void Flags::add(const std::string&, std::vector<double>&, const std::string&, const FlagForm&);
template void Flags::add(const std::string&, std::vector<std::string>&, const std::string&, const FlagForm&);

void Flags::add_switch(const std::string& name, bool& value, const std::string& help) {
  // The opposite of the default, not of the current value: giving a flag twice must not turn it back.
  const auto turn = [&value, turned = !value] { value = turned; };
  add_flag(name, turn, help);
}

void Flags::add_callback(const std::string& name, bool is_switch,
                         std::function<void(const std::string&)> take, const std::string& help,
                         const FlagForm& form) {
  if (is_switch) {
    add_flag(
        name, [take = std::move(take)] { take("on"); }, help);
  } else {
    CLI::Option& option = *command_.add_option_function<std::string>(name, take, help)->group(group_);
    check_values(option, form, form.numbers, false);
  }
}

void Flags::add_flag(const std::string& name, std::function<void()> turn, const std::string& help) {
  CLI::Option& option = *command_.add_flag_callback(name, std::move(turn), help)->group(group_);
  const std::vector<std::string> values{"true", "false"};
  option.check(CLI::Validator(
      [values](const std::string& text) {
        if (std::ranges::find(values, text) != values.end()) return std::string();
        return fmt::format("takes no value, or {}, not '{}'", join_alternatives(values), text);
      },
      ""));
}

Arguments Flags::keep_own(const Arguments& arguments) {
  if (passed_on_ == nullptr) return arguments;
  const auto divider = std::find(arguments.begin(), arguments.end(), "--");
  passed_on_->divided = divider != arguments.end();
  if (passed_on_->divided) passed_on_->behind.assign(divider + 1, arguments.end());
  Arguments own;
  // Values follow their flag.
  bool is_own = true;
  for (auto word = arguments.begin(); word != divider; ++word) {
    if (word->starts_with('-')) is_own = has_flag(command_, *word);
    (is_own ? own : passed_on_->before).push_back(*word);
  }
  return own;
}

bool Flags::given(const std::string& name) const {
  return command_.count(name) > 0;
}

void Flags::set(const std::string& name, const std::string& text) {
  // Parsing is over, so the value has to be passed on to the variable by hand.
  CLI::Option* option = command_.get_option(name);
  option->add_result(text);
  option->run_callback();
}

struct CommandLine::Command {
  explicit Command(CLI::App& parser) : app(parser), flags(parser) {}

  CLI::App& app;
  Flags flags;
  RunCommand run;
};

CommandLine::CommandLine(const std::string& description, const std::string& version,
                         const std::string& footer)
    : app_(std::make_unique<CLI::App>(description, "lockstep")) {
  app_->footer(footer);
  app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
}

CommandLine::~CommandLine() = default;

void CommandLine::add(const char* name, const char* description, const AddCommand& add_flags) {
  Command& command =
      *commands_.emplace_back(std::make_unique<Command>(*app_->add_subcommand(name, description)));
  command.run = add_flags(command.flags);
}

void CommandLine::refuse_long_names_behind_one_dash(const Arguments& arguments) const {
  for (const std::unique_ptr<Command>& command : commands_) {
    if (arguments.size() < 2 || command->app.get_name() != arguments[1]) continue;
    const std::vector<std::string> names = flags_of(command->app);
    for (const std::string& word : arguments) {
      if (!word.starts_with('-') || word.starts_with("--")) continue;
      if (std::ranges::find(names, name_in(word)) != names.end()) throw unexpected(command->app, word);
    }
  }
}

RunCommand CommandLine::parse(const Arguments& given) {
  Arguments arguments = given;
  for (const std::unique_ptr<Command>& command : commands_) {
    if (given.size() > 1 && command->app.get_name() == given[1]) arguments = command->flags.keep_own(given);
  }
  refuse_long_names_behind_one_dash(arguments);
  try {
    // CLI11 takes them from the end.
    app_->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend() - 1));
  } catch (const CLI::Success& wanted) {
    // --help and --version; exit() writes what belongs to each.
    std::ostringstream text;
    app_->exit(wanted, text, text);
    print_result(text.str());
    return {};
  } catch (const CLI::ParseError& error) {
    throw reworded(error, *app_);
  }
  for (const std::unique_ptr<Command>& command : commands_) {
    if (command->app.parsed()) return command->run;
  }
  return {};
}

int CommandLine::run(int argc, char** argv) {
  const Arguments arguments(argv, argv + argc);
  try {
    RunCommand command;
    const int code = report_once([&] {
      command = parse(arguments);
      return kExitDone;
    });
    return command ? command(arguments) : code;
  } catch (const std::exception& error) {
    return report(error);
  }
}

}  // namespace lockstep::cli
