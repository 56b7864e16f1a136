#include <algorithm>
#include <filesystem>
#include <memory>

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

std::vector<std::string> page_names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& file : fs::directory_iterator(folder))
    if (file.path().extension() == ".md") names.push_back(file.path().stem());
  std::ranges::sort(names);
  return names;
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
    const fs::path folder = docs_folder();
    const std::vector<std::string> names = page_names(folder);
    const std::string name = fs::path(*page).stem();
    if (std::ranges::find(names, name) == names.end())
      throw_unknown_name("page", *page, names, "lockstep docs");
    print_result(read_file(folder / (name + ".md")));
    return kExitDone;
  };
}

}  // namespace lockstep::cli
