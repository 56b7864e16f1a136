#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/plugin_file.h"
#include "lockstep/comm/backend.h"
#include "lockstep/inputs/input.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/precision.h"
#include "lockstep/results/tables/render.h"
#include "lockstep/strategies/strategy.h"

#include "commands.h"
#include "console.h"
#include "presets.h"

namespace lockstep::cli {
namespace {

constexpr const char* kExamples = R"text(Examples:
  eval "$(lockstep completion bash)"        in ~/.bashrc
  eval "$(lockstep completion zsh)"         in ~/.zshrc, behind compinit
  lockstep completion fish | source         in ~/.config/fish/config.fish
)text";

/// Lets the shell call `lockstep completion` with the line in COMP_LINE, and all but fish with the cursor's
/// place in it in COMP_POINT.
std::string script_for(const std::string& shell) {
  // Only the package's script leads to a LibTorch that lies elsewhere (python/lockstep/program.py).
  const std::string program =
      std::getenv("LOCKSTEP_USERS_LIBRARY_PATH") == nullptr ? program_path() : "lockstep";
  if (shell == "fish") {
    return fmt::format(
        "complete -c lockstep -a '(COMP_LINE=(commandline -cp | string collect) \"{}\" completion)'\n",
        program);
  }
  const std::string script = fmt::format("complete -o default -C '\"{}\" completion' lockstep\n", program);
  return shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" + script : script;
}

/// One candidate a line for the last word of `line`.
std::string candidates_for(const CommandLine& commands, const std::string& line) {
  std::istringstream stream(line);
  Arguments words(std::istream_iterator<std::string>(stream), {});
  if (words.size() < 2 || line.ends_with(' ')) words.emplace_back();
  const std::vector<std::string> found =
      commands.completions(words, {{"--model", models::registry().names()},
                                   {"--strategy", strategies::registry().names()},
                                   {"--backend", comm::backend_names()},
                                   {"--input", inputs::registry().names()},
                                   {"--kernels", kernels::registry().names()},
                                   {"--precision", replica::precision_names()},
                                   {"--preset", presets().names()},
                                   {"--style", results::styles().names()}});
  return found.empty() ? "" : fmt::format("{}\n", fmt::join(found, "\n"));
}

}  // namespace

RunCommand add_completion(Flags& flags, const CommandLine& commands) {
  const auto shell = std::make_shared<std::string>("bash");
  flags.add("shell", *shell, "the shell whose script is printed", {.one_of = {"bash", "zsh", "fish"}});
  flags.set_examples(kExamples);
  return [shell, &commands](const Arguments& /*arguments*/) {
    const char* line = std::getenv("COMP_LINE");
    const char* cursor = std::getenv("COMP_POINT");
    const size_t length = cursor == nullptr ? std::string::npos : std::strtoul(cursor, nullptr, 10);
    print_result(line != nullptr ? candidates_for(commands, std::string(line).substr(0, length))
                                 : script_for(*shell));
    return kExitDone;
  };
}

}  // namespace lockstep::cli
