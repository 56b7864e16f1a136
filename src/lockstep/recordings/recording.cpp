#include "lockstep/recordings/recording.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/recordings/trace_text.h"

namespace lockstep::recordings {
namespace fs = std::filesystem;
namespace {

constexpr const char* kVersionKey = "lockstep_recording";
constexpr int kVersion = 1;
constexpr const char* kRecordingAdvice =
    "Give a folder that `lockstep record` wrote, or a trace of PyTorch's profiler.";

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
  std::error_code error, unknown;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    // Of a link to itself neither is known.
    if (entry.is_directory(unknown)) folders.push_back(entry.path());
    if (entry.is_regular_file(unknown) && is_trace_name(entry.path())) files.push_back(entry.path());
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

bool is_rank_text(std::string_view begin) {
  return begin.find(fmt::format("\"{}\"", kVersionKey)) != std::string::npos;
}

bool is_rank_file(const std::filesystem::path& path) {
  return is_rank_text(read_ends(path, 256).first);
}

RankFile parse_rank_file(std::string_view text, const std::string& name) {
  const nlohmann::json document = parse_json(text, name, kRecordingAdvice);
  const JsonNode root(document, name);
  root[kVersionKey].version(kVersion);
  RankFile file;
  decode(root, file);
  if (file.rank >= file.world) root["rank"].refuse(fmt::format("a rank below world, {}", file.world));
  for (size_t i = 0; i < file.step_end_s.size(); ++i) {
    if (!std::isfinite(file.step_end_s[i]) || (i > 0 && file.step_end_s[i] <= file.step_end_s[i - 1]))
      root["step_end_s"].elements()[i].refuse("a time after the one before");
  }
  const auto steps = static_cast<int64_t>(file.step_end_s.size());
  const bool in_order = file.window.size() == 2 && file.window[0] >= 0 && file.window[0] <= file.window[1];
  if (!file.window.empty() && !in_order) root["window"].refuse("two indexes in order");
  for (int64_t& index : file.window) index = std::min(index, steps);
  if (std::filesystem::path(file.trace).has_parent_path()) root["trace"].refuse("a file of the same folder");
  const auto fits = [](double samples) { return samples > 0 && samples <= 1e9; };
  if (!fits(file.samples_per_step.value_or(1))) root["samples_per_step"].refuse("a number up to 1000000000");
  if (!fits(static_cast<double>(file.batch_size.value_or(1))))
    root["batch_size"].refuse("a whole number from 1 to 1000000000");
  return file;
}

RankFile read_rank_file(const std::filesystem::path& path) {
  return parse_rank_file(read_file(path), path.string());
}

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
