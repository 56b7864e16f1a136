#include "docs/document.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

#include "lockstep/base/file.h"

namespace lockstep::docs {

std::vector<std::string> markdown_files() {
  const std::filesystem::path root = LOCKSTEP_SOURCE_DIR;
  std::vector<std::string> files;
  for (const char* name : {".", "docs", "docs/dev", "bench/results", "data/digits", "data/published"}) {
    const std::filesystem::path folder = (root / name).lexically_normal();
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".md") files.push_back(entry.path().lexically_relative(root).string());
    }
  }
  return files;
}

namespace {

std::string without_code_blocks(std::string_view markdown) {
  static const std::regex code_block(R"(```[^`]*```)");
  return std::regex_replace(std::string(markdown), code_block, "");
}

}  // namespace

std::vector<std::string> file_links(std::string_view markdown) {
  static const std::regex link(R"(\]\(([^)#]+)(#[^)]*)?\))");
  const std::string text = without_code_blocks(markdown);
  std::vector<std::string> targets;
  for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
    const std::string target = (*match)[1];
    if (target.find("://") == std::string::npos) targets.push_back(target);
  }
  return targets;
}

std::vector<std::pair<std::string, std::string>> anchored_links(std::string_view markdown) {
  static const std::regex link(R"(\]\(([^)#:]*)#([^)]+)\))");
  const std::string text = without_code_blocks(markdown);
  std::vector<std::pair<std::string, std::string>> targets;
  for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
    targets.emplace_back((*match)[1], (*match)[2]);
  }
  return targets;
}

namespace {

/// Lines without comments, with those that end in a backslash joined to the next.
class CommandLines {
 public:
  void add(std::string line) {
    line = line.substr(0, (" " + line).find(" #"));
    line.erase(line.find_last_not_of(' ') + 1);
    if (line.ends_with('\\')) {
      begun_ += line.substr(0, line.size() - 1);
      return;
    }
    line.insert(0, std::exchange(begun_, ""));
    if (!line.empty()) commands_.push_back(line);
  }
  std::vector<std::string> commands() && { return std::move(commands_); }

 private:
  std::string begun_;
  std::vector<std::string> commands_;
};

}  // namespace

std::vector<std::string> shell_commands(std::string_view markdown) {
  std::istringstream lines{std::string(markdown)};
  CommandLines commands;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = !inside && line == "```sh";
    } else if (inside) {
      commands.add(line);
    }
  }
  return std::move(commands).commands();
}

std::vector<std::string> all_commands(std::string_view markdown) {
  std::istringstream lines{std::string(markdown)};
  CommandLines commands;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
    } else if (line.starts_with("    ")) {
      commands.add(line.substr(4));
    } else if (inside) {
      commands.add(line);
    }
  }
  return std::move(commands).commands();
}

std::string project_file(const std::string& path) {
  return read_file(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / path);
}

std::vector<Mention> commands_with(const std::string& program) {
  std::vector<Mention> found;
  std::set<std::string> seen;
  for (const std::string& file : markdown_files()) {
    for (const std::string& command : shell_commands(project_file(file))) {
      if ((" " + command + " ").find(" " + program + " ") != std::string::npos)
        if (seen.insert(command).second) found.push_back({file, command});
    }
  }
  return found;
}

}  // namespace lockstep::docs
