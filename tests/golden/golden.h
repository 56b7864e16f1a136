#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <regex.h>

/// Comparison with the expected output in tests/golden. Where a line of such a file says {{number}} or
/// {{any}}, the output may have any number or any text there, and any amount of space elsewhere on that line.
/// LOCKSTEP_UPDATE_GOLDEN=1 in the environment writes what was found into the file instead; lines with
/// placeholders that still match stay as they are. Read the difference before committing it.
namespace lockstep::testing_golden {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline bool matches(const std::string& golden, const std::string& line) {
  if (golden.find("{{") == std::string::npos) return golden == line;
  std::string pattern = "^";
  for (size_t i = 0; i < golden.size(); ++i) {
    if (golden.compare(i, 10, "{{number}}") == 0) {
      pattern += "[-+]?[0-9]+(\\.[0-9]+)?(e[-+]?[0-9]+)?";
      i += 9;
    } else if (golden.compare(i, 7, "{{any}}") == 0) {
      pattern += ".*";
      i += 6;
    } else if (golden[i] == ' ') {
      if (i == 0 || golden[i - 1] != ' ') pattern += " +";
    } else {
      if (std::string("\\^$.|?*+()[]{}").find(golden[i]) != std::string::npos) pattern += '\\';
      pattern += golden[i];
    }
  }
  pattern += '$';
  // Not std::regex, which the sanitizers' compile flags make warn of its own insides.
  regex_t compiled;
  if (::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return false;
  const bool found = ::regexec(&compiled, line.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return found;
}

inline void expect_golden(const std::string& name, const std::string& found) {
  const std::filesystem::path path = std::filesystem::path(LOCKSTEP_GOLDEN) / name;
  std::ostringstream stored;
  if (std::ifstream file(path); file) stored << file.rdbuf();
  const std::vector<std::string> expected = lines_of(stored.str());
  const std::vector<std::string> lines = lines_of(found);
  if (const char* update = std::getenv("LOCKSTEP_UPDATE_GOLDEN");
      update != nullptr && std::string(update) == "1") {
    std::ofstream file(path);
    for (size_t i = 0; i < lines.size(); ++i) {
      file << (i < expected.size() && matches(expected[i], lines[i]) ? expected[i] : lines[i]) << '\n';
    }
    return;
  }
  ASSERT_FALSE(stored.str().empty()) << path << " is missing; LOCKSTEP_UPDATE_GOLDEN=1 writes it";
  for (size_t i = 0; i < std::max(expected.size(), lines.size()); ++i) {
    const std::string golden = i < expected.size() ? expected[i] : "(no more lines)";
    const std::string line = i < lines.size() ? lines[i] : "(no more lines)";
    ASSERT_TRUE(matches(golden, line))
        << path << ":" << i + 1 << "\nexpected: " << golden << "\nfound:    " << line;
  }
}

}  // namespace lockstep::testing_golden
