#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <ranges>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/names.h"
#include "lockstep/base/plugin_file.h"
#include "lockstep/comm/backend.h"
#include "lockstep/inputs/input.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/precision.h"
#include "lockstep/results/tables/tables.h"
#include "lockstep/strategies/strategy.h"

#include "bench_options.h"
#include "commands.h"
#include "console.h"

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

namespace fs = std::filesystem;

/// Where the pages are, seen from the program: beside the build folder, and in a wheel beside bin.
fs::path docs_folder() {
  const fs::path folder = program_path().parent_path().parent_path() / "docs";
  if (fs::is_directory(folder)) return folder;
  throw ConfigError(
      fmt::format("there is no {}: this program was moved away from its pages", folder.string()),
      "They are in the folder docs of the sources, and in the wheel.");
}

/// Pages by their names, those of docs/dev among them.
std::map<std::string, fs::path> pages_of(const fs::path& folder) {
  std::map<std::string, fs::path> pages;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(folder))
    if (file.path().extension() == ".md") pages[file.path().stem()] = file.path();
  return pages;
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

RunCommand add_docs(Flags& flags) {
  const auto page = std::make_shared<std::string>("README");
  flags.add("page", *page, "a page under docs, as faq or reading-the-report [README, which lists all]");
  flags.set_examples(R"(Examples:
  lockstep docs                          the list of all pages
  lockstep docs reading-the-report       one of them
  lockstep docs errors | less
)");
  return [page](const Arguments& /*arguments*/) {
    const std::map<std::string, fs::path> pages = pages_of(docs_folder());
    const auto found = pages.find(fs::path(*page).stem());
    if (found == pages.end()) {
      const auto names = std::views::keys(pages);
      const std::vector<std::string> list(names.begin(), names.end());
      throw_unknown_name("page", *page, list, "lockstep docs");
    }
    print_result(read_file(found->second));
    return kExitDone;
  };
}

}  // namespace lockstep::cli
