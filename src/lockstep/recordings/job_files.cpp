#include "lockstep/recordings/job_files.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/recordings/trace_text.h"

namespace lockstep::recordings {
namespace fs = std::filesystem;
namespace {

/// Longer files of a rank are none.
constexpr size_t kMostRankFile = size_t{1} << 26;

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

void add_archive(std::vector<Member>& members, const fs::path& path, std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return !is_trace_name(name); });
  std::ranges::sort(names);
  std::vector<Member> traces, ranks;
  for (const std::string& name : names) {
    if (!is_rank_text(TraceText::open(path, name).first(256))) {
      traces.push_back({.trace = path, .inside = name});
      continue;
    }
    Member& member = ranks.emplace_back();
    member.file = parse_rank_file(TraceText::open(path, name).first(kMostRankFile), (path / name).string());
    member.rank = member.file->rank;
    const std::string trace = (fs::path(name).parent_path() / member.file->trace).string();
    if (!member.file->trace.empty()) member.trace = path;
    if (std::ranges::find(names, trace) != names.end()) {
      member.inside = trace;
    } else if (!member.file->trace.empty()) {
      member.trace = path / trace;
    }
  }
  const auto& found = ranks.empty() ? traces : ranks;
  if (found.empty())
    throw Error(fmt::format("'{}' holds no traces (.json, .json.gz)", path.string()),
                "Give an archive of traces, or of the folder of a recording.");
  members.insert(members.end(), found.begin(), found.end());
}

/// Leaves of a process's windows the last: TensorBoard's handler names them WORKER.TIME.pt.trace.json.
void leave_out_earlier(std::vector<Member>& members) {
  const auto parts = [](const Member& member) {
    const std::string name = member.trace.filename().string();
    const size_t end = name.find(".pt.trace.json"), begin = name.rfind('.', end - 1);
    const bool timed = end != std::string::npos && begin != std::string::npos &&
                       name.find_first_not_of("0123456789", begin + 1) == end;
    return timed ? std::pair(name.substr(0, begin), name.substr(begin, end - begin))
                 : std::pair(name, std::string());
  };
  std::ranges::stable_sort(members, {}, parts);
  for (size_t i = 1; i < members.size(); ++i) {
    if (members[i].file || parts(members[i]).second.empty() ||
        parts(members[i - 1]).first != parts(members[i]).first)
      continue;
    members[i].earlier_windows = members[i - 1].earlier_windows + 1;
    members[i - 1].trace.clear();
  }
  std::erase_if(members, [](const Member& member) { return !member.file && member.trace.empty(); });
}

std::vector<fs::path> traces_in(const fs::path& folder, std::vector<fs::path>& folders) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) folders.push_back(entry.path());
    if (entry.is_regular_file(error) && is_trace_name(entry.path())) files.push_back(entry.path());
  }
  if (error) throw Error(fmt::format("'{}' cannot be read: {}", folder.string(), error.message()));
  std::ranges::sort(files);
  return files;
}

void add_folder(std::vector<Member>& members, const fs::path& folder) {
  std::vector<fs::path> folders, none, holding;
  std::vector<fs::path> files = traces_in(folder, folders);
  if (files.empty()) {
    std::ranges::copy_if(folders, std::back_inserter(holding),
                         [&](const fs::path& each) { return !traces_in(each, none).empty(); });
    if (holding.size() == 1) return add_folder(members, holding.front());
    if (holding.empty())
      throw Error(fmt::format("'{}' holds no traces (.json, .json.gz)", folder.string()),
                  "Name a trace, or the folder of a recording.");
    std::ranges::sort(holding);
    throw Error(
        fmt::format("'{}' holds {} folders of traces, and no trace itself", folder.string(), holding.size()),
        fmt::format("Name one of them, as {}.", holding.back().string()));
  }
  // A recording names its traces itself.
  const bool recording = std::ranges::any_of(files, is_rank_file);
  std::vector<Member> found;
  for (const fs::path& file : files) {
    if (!recording || is_rank_file(file)) add_file(found, file);
  }
  leave_out_earlier(found);
  members.insert(members.end(), found.begin(), found.end());
}

}  // namespace

int rank_in_name(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const std::string_view word : {"rank", "worker"}) {
    for (size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
      size_t digits = at + word.size();
      if (digits < name.size() && (name[digits] == '-' || name[digits] == '_')) ++digits;
      int rank = -1;
      std::from_chars(name.data() + digits, name.data() + name.size(), rank);
      if (rank >= 0) return rank;
    }
  }
  return -1;
}

std::vector<Member> members_of(const std::vector<fs::path>& paths) {
  std::vector<Member> members;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      add_folder(members, path);
    } else if (std::vector<std::string> names = files_in_archive(path); !names.empty()) {
      add_archive(members, path, std::move(names));
    } else {
      add_file(members, path);
    }
  }
  return members;
}

}  // namespace lockstep::recordings
