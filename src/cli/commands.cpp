#include "commands.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/names.h"
#include "lockstep/train/job/versions.h"

#include "console.h"

namespace lockstep::cli {
namespace {

std::string help_of(const CLI::App& command) {
  return command.get_parent() == nullptr ? "lockstep --help"
                                         : fmt::format("lockstep {} --help", command.get_name());
}

std::string help_advice(const CLI::App& command) {
  return fmt::format("'{}' explains every flag.", help_of(command));
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

/// Flags of earlier versions, and their replacements.
constexpr std::pair<std::string_view, const char*> kRemoved[] = {
    {"limit", "build/bench/limit measures the limit; bench/limit_share.py sets it beside a row."},
    {"layers", "ONEDNN_VERBOSE=1 prints the time of every primitive; --trace names a GPU's kernels."}};

/// A guess at the meaning of `word` on a command without arguments: "; did you mean --model resnet18?".
std::string meaning_of_argument(const CLI::App& command, const std::string& word) {
  if (command.get_name() == "record") return "; the command to record stands behind '--'";
  if (word.ends_with(".json"))
    return "; 'lockstep diff BASE.json TEST.json' compares results, 'lockstep show' prints one";
  const std::string flag = "--" + flag_name(word);
  if (command.get_option_no_throw(flag) != nullptr) return fmt::format("; did you mean {}?", flag);
  return command.get_option_no_throw("--model") == nullptr ? ""
                                                           : fmt::format("; did you mean --model {}?", word);
}

/// "; it is one of 'lockstep train'", where another command has the flag.
std::string owner_of(const std::string& flag, const CLI::App& command) {
  if (const CLI::App* program = command.get_parent(); program != nullptr) {
    for (const CLI::App* other : program->get_subcommands({}))
      if (other->get_option_no_throw("--" + flag_name(flag)) != nullptr)
        return fmt::format("; it is one of 'lockstep {}'", other->get_name());
  }
  return "";
}

/// Refuses a word that the command has no use for.
[[noreturn]] void throw_unexpected(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-')) {
    throw ConfigError(fmt::format("'lockstep {}' takes no argument '{}'{}", command.get_name(), word,
                                  meaning_of_argument(command, word)),
                      help_advice(command));
  }
  const auto removed =
      std::ranges::find(kRemoved, flag_name(word), [](const auto& one) { return one.first; });
  if (removed != std::end(kRemoved))
    throw ConfigError(fmt::format("unknown flag '{}': it was removed", word), removed->second);
  std::vector<std::string> near = nearest_names(flag_name(word), flags_of(command));
  for (std::string& name : near) name.insert(0, "--");
  throw ConfigError(
      fmt::format("unknown flag '{}'{}", word, near.empty() ? owner_of(word, command) : did_you_mean(near)),
      help_advice(command));
}

/// Refuses a line that names no command.
[[noreturn]] void throw_without_command(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  if (words.empty()) throw ConfigError("a command is missing, as in 'lockstep bench'", help_advice(app));
  if (words.front().starts_with('-')) {
    if (!nearest_names(flag_name(words.front()), flags_of(app)).empty()) throw_unexpected(app, words.front());
    throw ConfigError(
        fmt::format("'{}' stands before a command, as in 'lockstep bench {}'", words.front(), words.front()),
        help_advice(app));
  }
  for (const char* python : {"export", "convert"}) {
    if (words.front() != python) continue;
    throw ConfigError(
        fmt::format("'{}' is a command of lockstep's Python package", python),
        fmt::format("'python3 -m lockstep {} --help' explains it, with the package installed or, in "
                    "the sources, with PYTHONPATH=python.",
                    python));
  }
  std::vector<std::string> names{"help"};
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  throw_unknown_name("command", words.front(), names, help_of(app));
}

/// Throws CLI11's error in lockstep's words. Its text begins with the option's name, which its class does not
/// have.
[[noreturn]] void throw_reworded(const CLI::ParseError& error, const CLI::App& app) {
  if (app.get_subcommands().empty()) throw_without_command(app);
  const CLI::App& command = *app.get_subcommands().front();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> words = command.remaining();
    throw_unexpected(command, words.empty() ? app.remaining().front() : words.front());
  }
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find_first_of(": "));
  const CLI::Option* option = command.get_option_no_throw(name);
  if (option == nullptr) throw ConfigError(text, help_advice(command));
  const std::string& help = option->get_description();
  const std::string meaning = help.substr(0, std::min({help.find(" ["), help.find(":\n")}));
  std::string sentence = name + text.substr(std::min(name.size() + 1, text.size()));
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    sentence = fmt::format("'lockstep {}' needs {}: {}", command.get_name(), name, meaning);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    sentence = option->count() > 1 ? fmt::format("{} takes one value, not {}", name, option->count())
                                   : fmt::format("{} needs a value: {}", name, meaning);
  }
  throw ConfigError(sentence, help_advice(command));
}

/// CLI11 would take -output for -o with the value "utput", and ignore the value of --help, what follows "--",
/// empty values of a list, and that of a flag that needs none.
void refuse_misread(const CLI::App& command, const Arguments& words) {
  const std::vector<std::string> names = flags_of(command);
  const auto refuse = [&](const std::string& why) { throw ConfigError(why, help_advice(command)); };
  const CLI::Option* option = nullptr;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (word == "--") refuse(fmt::format("'lockstep {}' takes no '--'", command.get_name()));
    if (word.starts_with("--help=")) refuse("--help takes no value");
    if (word.starts_with('-')) {
      const bool known = std::ranges::find(names, flag_name(word)) != names.end();
      if (known && !word.starts_with("--")) throw_unexpected(command, word);
      option = command.get_option_no_throw(word.substr(0, equals));
      if (equals == std::string::npos) continue;
    }
    const std::string values = word.starts_with('-') ? word.substr(equals + 1) : word;
    const bool takes_value = option != nullptr && option->get_items_expected_max() > 0;
    if (takes_value && values.empty()) refuse(fmt::format("{} was given an empty value", option->get_name()));
    const bool list = takes_value && option->get_delimiter() == ',';
    if (list && fmt::format(",{},", values).find(",,") != std::string::npos)
      refuse(fmt::format("{} was given an empty value in '{}'", option->get_name(), values));
    if (!list || !option->get_allow_extra_args()) option = nullptr;
  }
}

/// Moves the words behind the first "--" to `rest`.
void cut_behind_divider(Arguments& words, PassedOn& rest) {
  const auto divider = std::ranges::find(words, "--");
  rest.divided = divider != words.end();
  if (!rest.divided) return;
  rest.behind.assign(divider + 1, words.end());
  words.erase(divider, words.end());
}

constexpr const char* kFooter = R"(Start here:
  lockstep bench                     train ResNet-50 on 1, 2, ... ranks and print how it scales
  lockstep bench --help              every flag, with examples
  lockstep info                      what is installed, and what can be measured
  lockstep topo                      what this machine looks like
  lockstep report RESULT.json -o report.html
                                     explain a result on one page, with charts
  lockstep docs                      the pages of the documentation
  python -m lockstep export torchvision:vit_b_16 -o vit.pt2
                                     put a PyTorch network into a file for --model
  lockstep diff BASE.json TEST.json  what changed between two results, and how certain that is
  lockstep compare --bucket-mb 25 -- --bucket-mb 1
                                     which of two settings is faster, launched in turn until it is certain
  lockstep collectives               what the links between the ranks give
  lockstep record -- torchrun --nproc-per-node 2 train.py
                                     where the time of your own training goes

Exit codes: 0 done, 1 the run or a check failed, 2 wrong usage, 3 a regression was found,
4 a backend is missing, 130 interrupted (Ctrl-C), 143 terminated.
)";

}  // namespace

struct CommandLine::Command {
  CLI::App& app;
  Flags flags{app};
  RunCommand run = {};
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
  Command& command = commands_.emplace_back(Command{*app_->add_subcommand(name, description)});
  command.run = add_flags(command.flags);
}

RunCommand CommandLine::parse(const Arguments& arguments) {
  Arguments words(arguments.begin() + 1, arguments.end());
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    const auto is_named = [&](const Command& command) { return command.app.get_name() == words.front(); };
    if (words.empty() || std::ranges::any_of(commands_, is_named)) words.emplace_back("--help");
  }
  // Bash passes the program's name and two words of the line.
  if (!words.empty() && words.front() == "completion" && std::getenv("COMP_LINE") != nullptr) words.resize(1);
  for (const Command& command : commands_) {
    if (words.empty() || command.app.get_name() != words.front()) continue;
    if (PassedOn* rest = command.flags.passed_on()) cut_behind_divider(words, *rest);
    refuse_misread(command.app, words);
  }
  try {
    // CLI11 takes them from the end.
    app_->parse(Arguments(words.rbegin(), words.rend()));
  } catch (const CLI::Success& wanted) {
    // --help and --version; exit() writes what belongs to each.
    std::ostringstream text;
    app_->exit(wanted, text, text);
    print_result(fitted(text.str()));
    return {};
  } catch (const CLI::ParseError& error) {
    throw_reworded(error, *app_);
  }
  const auto parsed =
      std::ranges::find_if(commands_, [](const Command& command) { return command.app.parsed(); });
  if (parsed == commands_.end()) return {};
  parsed->flags.check_uses();
  return parsed->run;
}

std::vector<std::string> CommandLine::completions(
    const Arguments& arguments, const std::map<std::string, std::vector<std::string>>& values) const {
  const std::string& word = arguments.back();
  std::vector<std::string> all;
  if (arguments.size() <= 2) {
    for (const CLI::App* command : app_->get_subcommands({})) all.push_back(command->get_name());
  } else if (const auto named = values.find(arguments[arguments.size() - 2]); named != values.end()) {
    // Only the last entry of a list is completed.
    const std::string before = word.substr(0, word.rfind(',') + 1);
    for (const std::string& value : named->second) all.push_back(before + value);
  } else if (word.starts_with('-')) {
    for (const CLI::App* command :
         app_->get_subcommands([&](const CLI::App* one) { return one->get_name() == arguments[1]; }))
      for (const std::string& name : flags_of(*command)) all.push_back("--" + name);
  }
  std::erase_if(all, [&](const std::string& one) { return !one.starts_with(word); });
  return all;
}

int run_program(const Arguments& arguments) {
  CommandLine line("lockstep measures data-parallel training and explains the result", train::version_text(),
                   kFooter);
  line.add("bench", "train on 1, 2 and more ranks and print how it scales", &add_bench);
  line.add("train", "train a network, with checkpoints to resume from", &add_train);
  line.add("verify", "check that strategies compute what they promise", &add_verify);
  line.add("collectives", "measure what the links between ranks give: collectives at every size, checked",
           &add_collectives);
  line.add("record", "record your own PyTorch training, without a change of its script", &add_record);
  line.add("info", "versions, devices, backends, models, strategies, inputs, kernels and presets", &add_info);
  line.add("compare", "run two configurations of bench in turn until it is certain which is faster",
           &add_compare);
  line.add("diff", "compare two results row by row, with how certain each difference is", &add_diff);
  line.add("import", "explain your own training, from traces of PyTorch's profiler", &add_import);
  line.add("report", "write a page that explains one or several results", &add_report);
  line.add("show", "print the tables of a saved result, in any style", &add_show);
  line.add("predict", "predict how training scales beyond what was measured, with intervals", &add_predict);
  line.add("plot", "write one chart of one or several results as SVG, PDF or PNG", &add_plot);
  line.add("feed", "send random batches to a bench with --input zmq", &add_feed);
  line.add("topo", "processors, GPUs and network devices, and what connects them", &add_topo);
  line.add("docs", "print a page of the documentation, or the list of all", &add_docs);
  line.add("completion", "print the script that completes commands, flags and names in a shell",
           [&line](Flags& flags) { return add_completion(flags, line); });
  try {
    RunCommand command;
    const int code = report_once([&] {
      command = line.parse(arguments);
      return kExitDone;
    });
    return command ? command(arguments) : code;
  } catch (const std::exception& error) {
    return report(error);
  }
}

}  // namespace lockstep::cli
