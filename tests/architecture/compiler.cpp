#include "architecture/compiler.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::architecture {
namespace {

std::filesystem::path build_fact(const std::string& part, const std::string& kind) {
  std::string target = part;
  std::replace(target.begin(), target.end(), '/', '_');
  return std::filesystem::path(LOCKSTEP_PARTS_DIR) / (target + "." + kind);
}

/// The compiler's arguments by which a part finds headers; warnings and sanitizers have no say in that.
std::string header_search(const std::string& part) {
  std::string arguments;
  std::istringstream folders(read_file(build_fact(part, "include_folders")));
  for (std::string folder; std::getline(folders, folder);) {
    if (!folder.empty()) arguments += fmt::format(" -I'{}'", folder);
  }
  std::istringstream options(read_file(build_fact(part, "options")));
  const std::string shell = "SHELL:";
  // pkg-config may give "-isystem" and its folder as two options.
  bool is_folder = false;
  for (std::string option; std::getline(options, option);) {
    if (option.starts_with(shell)) option.erase(0, shell.size());
    if (is_folder || option.starts_with("-i") || option.starts_with("-I")) arguments += " " + option;
    is_folder = option == "-isystem" || option == "-I";
  }
  return arguments;
}

}  // namespace

bool part_is_built(const std::string& part) {
  return std::filesystem::exists(build_fact(part, "include_folders"));
}

Compilation compile_in_part(const std::string& part, const std::string& source) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("lockstep_arrow_{}.cpp", ::getpid());
  write_file_atomically(file, source);
  const std::string command = fmt::format("LC_ALL=C '{}' -std=c++20 -fsyntax-only {} '{}' 2>&1", LOCKSTEP_CXX,
                                          header_search(part), file.string());
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw Error("cannot start the compiler: " + command);
  Compilation result;
  char buffer[4096];
  for (size_t got = 0; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    result.messages.append(buffer, got);
  result.ok = ::pclose(pipe) == 0;
  std::filesystem::remove(file);
  return result;
}

}  // namespace lockstep::architecture
