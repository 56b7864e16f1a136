#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::architecture {

/// A place that breaks a rule of the house.
struct Finding {
  std::string path;
  /// From 1; 0 for the file as a whole.
  int line = 0;
  std::string rule;
};

/// "src/lockstep/comm/a.cpp:12: the library prints".
std::string to_string(const Finding& finding);

/// Breaches of the rules in this file. `path` is relative to the project's folder, with '/'.
std::vector<Finding> check_file(const std::string& path, std::string_view text);

/// All text files of the project, relative to `root`, without what is built, installed or git's own.
std::vector<std::string> project_files(const std::filesystem::path& root);

}  // namespace lockstep::architecture
