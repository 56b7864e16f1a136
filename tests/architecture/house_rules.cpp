#include "architecture/house_rules.h"

#include <algorithm>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "lockstep/base/file.h"

#include "architecture/source_text.h"

namespace lockstep::architecture {
namespace {

/// A longer file has two subjects.
constexpr int kMostLines = 700;

bool matches(const std::string& text, const char* pattern) {
  return std::regex_search(text, std::regex(pattern));
}

bool is_cpp(const std::string& path) {
  return path.ends_with(".h") || path.ends_with(".cpp") || path.ends_with(".cu");
}

bool is_library(const std::string& path) {
  return path.starts_with("src/lockstep/");
}

/// Whether the file belongs to a part that builds without LibTorch: those that src/lockstep/CMakeLists.txt
/// adds before it asks for LibTorch.
bool builds_without_torch(const std::string& path) {
  static const std::vector<std::string> parts = [] {
    std::vector<std::string> found;
    std::istringstream lines(read_file(LOCKSTEP_SOURCE_DIR "/src/lockstep/CMakeLists.txt"));
    std::smatch part;
    for (std::string line; std::getline(lines, line) && line != "if(LOCKSTEP_TORCH_PARTS)";) {
      if (std::regex_match(line, part, std::regex(R"(add_subdirectory\((.*)\))"))) found.push_back(part[1]);
    }
    return found;
  }();
  // Its client of torchrun's store is a target of its own.
  return path != "src/lockstep/launch/tcp_store.cpp" && std::ranges::any_of(parts, [&](const auto& part) {
           return path.starts_with("src/lockstep/" + part + "/");
         });
}

/// A rule about single lines: `where` says which files it holds for, `pattern` what must not stand there.
struct LineRule {
  std::string what;
  std::function<bool(const std::string& path)> where;
  /// Looked for in code (comments and literals blanked), or in the line as it stands.
  bool in_code;
  std::regex pattern;
};

const std::vector<LineRule>& line_rules() {
  static const std::vector<LineRule> rules = {
      {"LibTorch in a part that builds without it", &builds_without_torch, false,
       std::regex(R"(^\s*#\s*include\s*[<"](torch|ATen|c10)/)")},
      {"a communication library's header outside of its backend's folder",
       [](const std::string& path) {
         return path.starts_with("src/") && !matches(path, "/comm/(gloo|mpi|nccl)/");
       },
       false, std::regex(R"(^\s*#\s*include\s*[<"](mpi\.h|nccl\.h|gloo/))")},
      {"the library prints (commands do that, from src/cli)",
       [](const std::string& path) { return is_library(path) && path != "src/lockstep/base/assert.h"; }, true,
       std::regex(
           R"(std::(cout|cerr|clog)\b|\b(printf|fprintf|puts|fputs|putchar|perror)\s*\(|\bfmt::print)")},
      {"the library exits (it throws, and commands choose the exit code)",
       [](const std::string& path) { return is_library(path); }, true,
       std::regex(R"((^|[^\w.>])(exit|quick_exit|_Exit)\s*\()")},
      {"_exit outside of launch and the child that renames files",
       [](const std::string& path) {
         return is_library(path) && !matches(path, "/launch/|/base/file[.]cpp");
       },
       true, std::regex(R"((^|[^\w.>])_exit\s*\()")},
      {"an include by a relative path (name it as \"lockstep/<part>/<file>.h\")", is_cpp, false,
       std::regex(R"(^\s*#\s*include\s*"\.\.?/)")},
      // The patterns are cut in two, so that this file does not break its own rules.
      {"a path of one developer's machine", [](const std::string&) { return true; }, false,
       std::regex(R"(\.\./sha)"
                  R"(red\b|(^|[\s"'`=(:])/wor)"
                  R"(k/|(^|[\s"'`=(:])/ro)"
                  R"(ot/)")},
  };
  return rules;
}

}  // namespace

std::string to_string(const Finding& finding) {
  return fmt::format("{}:{}: {}", finding.path, finding.line, finding.rule);
}

std::vector<Finding> check_file(const std::string& path, std::string_view text) {
  std::vector<Finding> findings;
  std::istringstream lines{std::string(text)};
  std::istringstream code_lines{is_cpp(path) ? code_only(text) : std::string(text)};
  std::vector<const LineRule*> rules;
  for (const LineRule& rule : line_rules()) {
    if (rule.where(path)) rules.push_back(&rule);
  }
  int number = 0;
  std::string code;
  for (std::string line; std::getline(lines, line);) {
    std::getline(code_lines, code);
    ++number;
    for (const LineRule* rule : rules) {
      if (std::regex_search(rule->in_code ? code : line, rule->pattern))
        findings.push_back({path, number, rule->what});
    }
  }
  if (path.starts_with("src/") && is_cpp(path) && number > kMostLines) {
    findings.push_back({path, 0, fmt::format("{} lines are two subjects", number)});
  }
  return findings;
}

std::vector<std::string> project_files(const std::filesystem::path& root) {
  static const std::set<std::string> left_out = {".git",        ".venv",       ".venv-dev",  ".venv-onednn",
                                                 ".venv-tests", ".venv-wheel", ".cache",     "build",
                                                 "dist",        "out",         "__pycache__"};
  static const std::set<std::string> extensions = {".h",  ".cpp", ".cu",   ".txt", ".cmake", ".md", ".sh",
                                                   ".py", ".yml", ".json", ".csv", ".in",    ""};
  std::vector<std::string> files;
  for (auto entry = std::filesystem::recursive_directory_iterator(root); entry != std::filesystem::end(entry);
       ++entry) {
    if (entry->is_directory() && left_out.contains(entry->path().filename().string())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && entry->path().filename() != ".git" &&
               extensions.contains(entry->path().extension().string())) {
      files.push_back(entry->path().lexically_relative(root).generic_string());
    }
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace lockstep::architecture
