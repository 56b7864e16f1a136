#include <filesystem>
#include <map>
#include <memory>
#include <ranges>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/names.h"
#include "lockstep/base/plugin_file.h"

#include "commands.h"
#include "console.h"

namespace lockstep::cli {
namespace {

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
