#include "flags.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "lockstep/base/assert.h"
#include "lockstep/base/error.h"
#include "lockstep/base/names.h"

namespace lockstep::cli {
namespace {

/// The type of one value: that of the elements of lists, and that of optional values.
template <typename Value>
struct Single {
  using Type = Value;
};
template <typename Value>
struct Single<std::optional<Value>> : Single<Value> {};
template <typename Value>
struct Single<std::vector<Value>> : Single<Value> {};

/// Lets the option refuse values that the form does not allow. `whole`: its numbers are whole.
void check_values(CLI::Option& option, const FlagForm& form, bool whole) {
  const auto check = [one_of = form.one_of, numbers = form.numbers, whole,
                      delimited = option.get_delimiter() != '\0'](std::string& text) {
    const auto refused = [&](const std::string& allowed) {
      const bool range =
          whole && delimited &&
          (text.find_first_of("-:", 1) != std::string::npos || text.find("..") != std::string::npos);
      return fmt::format("takes {}, not '{}'{}", allowed, text,
                         range ? "; several are separated by commas: 1,2,4" : "");
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
  };
  option.transform(CLI::Validator(check, ""));
}

}  // namespace

void Flags::set_examples(const std::string& text) {
  command_.footer(text);
}

template <typename Value>
void Flags::add(const std::string& name, Value& value, const std::string& help, FlagForm form) {
  using One = typename Single<Value>::Type;
  LOCKSTEP_ASSERT(!std::is_arithmetic_v<One> || form.numbers);
  CLI::Option& option = *command_.add_option(name, value, help)->group(group_);
  keep_use(name, form.use);
  if constexpr (std::is_same_v<Value, std::vector<One>>) {
    // A shell's glob gives positional arguments one by one, and file names may contain commas.
    const bool positional = !name.starts_with('-');
    if (form.single || form.repeated) option.expected(1);
    if (form.repeated) option.take_all();
    const bool has_arguments = std::ranges::any_of(
        command_.get_options(), [](const CLI::Option* other) { return other->get_positional(); });
    // The word behind a list may be an argument of the command.
    if (!form.single && !form.repeated && !positional)
      option.delimiter(',')->allow_extra_args(!has_arguments);
  }
  // A default in words says more than the 0 or the empty text that stands for it.
  bool has_default = !std::is_same_v<Value, std::optional<One>> && !help.ends_with(']');
  if constexpr (std::is_same_v<Value, std::vector<One>>) has_default = has_default && !value.empty();
  if (has_default) option.capture_default_str();
  if constexpr (std::is_same_v<Value, double>) {
    if (form.numbers->unit == Unit::kShare) option.default_str(fmt::format("{:g}%", 100 * value));
  }
  if constexpr (std::is_integral_v<One>)
    form.numbers->most = std::min(form.numbers->most, static_cast<double>(std::numeric_limits<One>::max()));
  check_values(option, form, std::is_integral_v<One>);
  if (*form.value != '\0') option.type_name(form.value);
  if (form.required) option.required();
  if (*form.alone != '\0') option.expected(0, 1)->default_str(form.alone);
}

// All types of values that commands have; the template stays here because CLI11's headers do.
template void Flags::add(const std::string&, std::string&, const std::string&, FlagForm);
template void Flags::add(const std::string&, int&, const std::string&, FlagForm);
template void Flags::add(const std::string&, int64_t&, const std::string&, FlagForm);
template void Flags::add(const std::string&, uint64_t&, const std::string&, FlagForm);
template void Flags::add(const std::string&, double&, const std::string&, FlagForm);
template void Flags::add(const std::string&, std::optional<int>&, const std::string&, FlagForm);
template void Flags::add(const std::string&, std::optional<double>&, const std::string&, FlagForm);
template void Flags::add(const std::string&, std::vector<int>&, const std::string&, FlagForm);
template void Flags::add(const std::string&, std::vector<double>&, const std::string&, FlagForm);
template void Flags::add(const std::string&, std::vector<std::string>&, const std::string&, FlagForm);

void Flags::add_switch(const std::string& name, bool& value, const std::string& help,
                       std::optional<FlagUse> use) {
  keep_use(name, use);
  // The opposite of the default, not of the current value: giving a flag twice must not turn it back.
  const auto turn = [&value, turned = !value] { value = turned; };
  add_flag(name, turn, help);
}

void Flags::add_callback(const std::string& name, bool is_switch,
                         std::function<void(const std::string&)> take, const std::string& help,
                         const FlagForm& form) {
  keep_use(name, form.use);
  if (is_switch) {
    add_flag(
        name, [take = std::move(take)] { take("on"); }, help);
  } else {
    CLI::Option& option = *command_.add_option_function<std::string>(name, take, help)->group(group_);
    check_values(option, form, form.whole);
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

void Flags::pass_on(PassedOn& words) {
  passed_on_ = &words;
  command_.allow_extras();
  command_.final_callback([this] {
    Arguments& rest = passed_on_->before = command_.remaining();
    if (!rest.empty() && !rest.front().starts_with('-')) throw CLI::ExtrasError(command_.get_name(), rest);
  });
}

bool Flags::given(const std::string& name) const {
  return command_.count(name) > 0;
}

void Flags::check_uses() const {
  for (const auto& [name, use] : uses_) {
    // Commands say themselves which arguments they take.
    if (!name.starts_with('-') || !given(name)) continue;
    if (*use.needs != '\0' && !given(use.needs))
      throw ConfigError(fmt::format("{} has no effect without {}", name, use.needs), "Add it.");
    std::vector<std::string> others = modes_;
    std::erase_if(others, [&](const std::string& mode) {
      return mode == name || std::ranges::find(use.modes, mode) != use.modes.end();
    });
    if (*use.never_beside != '\0') others.emplace_back(use.never_beside);
    for (const std::string& other : others)
      if (given(other))
        throw ConfigError(fmt::format("{} has no effect beside {}", name, other), "Leave one of them out.");
  }
}

void Flags::refuse(std::initializer_list<const char*> names, const std::string& where,
                   const std::string& advice) const {
  for (const char* name : names)
    if (given(name)) throw ConfigError(fmt::format("{} has no effect {}", name, where), advice);
}

void Flags::set(const std::string& name, const std::string& text) {
  // Parsing is over, so the value has to be passed on to the variable by hand.
  CLI::Option* option = command_.get_option(name);
  option->add_result(text);
  option->run_callback();
}

}  // namespace lockstep::cli
