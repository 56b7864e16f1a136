#include "flags.h"

#include <cstdint>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include "console.h"

namespace lockstep::cli {
namespace {

template <typename Value>
constexpr bool kOptional = false;
template <typename Value>
constexpr bool kOptional<std::optional<Value>> = true;

template <typename Value>
constexpr bool kList = false;
template <typename Value>
constexpr bool kList<std::vector<Value>> = true;

}  // namespace

void Flags::set_examples(const std::string& text) {
  command_.footer(text);
}

template <typename Value>
void Flags::add(const std::string& name, Value& value, const std::string& help, const FlagForm& form) {
  CLI::Option& option = *command_.add_option(name, value, help)->group(group_);
  if constexpr (kList<Value>) {
    // A shell's glob gives positional arguments one by one, and file names may contain commas.
    const bool positional = !name.starts_with('-');
    if (form.single || form.repeated) option.expected(1);
    if (form.repeated) option.take_all();
    if (!form.single && !form.repeated && !positional) option.delimiter(',');
  }
  if constexpr (!kOptional<Value>) {
    // A default in words says more than the 0 or the empty text that stands for it.
    if (!help.ends_with(']')) option.capture_default_str();
  }
  if constexpr (std::is_same_v<Value, std::string>) {
    // An unset variable of a script: --resume "$FILE" must not mean that the flag was not given.
    option.check(CLI::Validator([](const std::string& text) { return text.empty() ? "is empty" : ""; }, ""));
  }
  if (*form.value != '\0') option.type_name(form.value);
  if (form.required) option.required();
  if (!form.one_of.empty()) option.check(CLI::IsMember(form.one_of));
  if (form.range) option.check(CLI::Range(form.range->first, form.range->second));
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
  command_.add_flag_callback(name, turn, help)->group(group_);
}

void Flags::add_callback(const std::string& name, bool is_switch,
                         std::function<void(const std::string&)> take, const std::string& help) {
  if (is_switch) {
    command_
        .add_flag_callback(
            name, [take = std::move(take)] { take("on"); }, help)
        ->group(group_);
  } else {
    command_.add_option_function<std::string>(name, take, help)->group(group_);
  }
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

void CommandLine::add(const char* name, const char* description, AddCommand add_flags) {
  Command& command =
      *commands_.emplace_back(std::make_unique<Command>(*app_->add_subcommand(name, description)));
  command.run = add_flags(command.flags);
}

int CommandLine::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version arrive as errors with code 0; exit() prints what belongs to each.
    if (app_->exit(error) == 0) return kExitDone;
    end_job_of_others(ConfigError(error.what()));
    return kExitUsage;
  }
  try {
    for (const std::unique_ptr<Command>& command : commands_) {
      if (command->app.parsed()) return command->run({argv, argv + argc});
    }
  } catch (const std::exception& error) {
    return report(error);
  }
  return kExitUsage;
}

}  // namespace lockstep::cli
