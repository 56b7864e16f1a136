#include "lockstep/recordings/job_files.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::recordings {
namespace fs = std::filesystem;
namespace {

bool is_trace_name(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".json") || name.ends_with(".json.gz");
}

void add_file(std::vector<Member>& members, const fs::path& path) {
  if (!is_rank_file(path)) {
    members.push_back({.trace = path});
    return;
  }
  Member member{.file = read_rank_file(path)};
  member.rank = member.file->rank;
  if (!member.file->trace.empty()) member.trace = path.parent_path() / member.file->trace;
  members.push_back(std::move(member));
}

}  // namespace

int rank_in_name(const fs::path& path) {
  const std::string name = path.filename().string();
  for (size_t at = name.find("rank"); at != std::string::npos; at = name.find("rank", at + 1)) {
    size_t digits = at + 4;
    if (digits < name.size() && (name[digits] == '-' || name[digits] == '_')) ++digits;
    int rank = -1;
    std::from_chars(name.data() + digits, name.data() + name.size(), rank);
    if (rank >= 0) return rank;
  }
  return -1;
}

std::vector<Member> members_of(const std::vector<fs::path>& paths) {
  std::vector<Member> members;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      add_file(members, path);
      continue;
    }
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      if (entry.is_regular_file() && is_trace_name(entry.path())) files.push_back(entry.path());
    }
    if (error) throw Error(fmt::format("'{}' cannot be read: {}", path.string(), error.message()));
    std::ranges::sort(files);
    // A recording names its traces itself.
    const bool recording = std::ranges::any_of(files, is_rank_file);
    for (const fs::path& file : files) {
      if (!recording || is_rank_file(file)) add_file(members, file);
    }
    if (files.empty())
      throw Error(fmt::format("'{}' holds no traces (.json, .json.gz)", path.string()),
                  "Name a trace, or the folder of a recording.");
  }
  return members;
}

}  // namespace lockstep::recordings
