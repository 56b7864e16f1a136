#include "recording_folder.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/launch/child_process.h"

#include "console.h"
#include "recorder_files.h"

namespace lockstep::cli {
namespace fs = std::filesystem;
namespace {

/// Files of a recording: "rank-0.json", "rank-0.trace.json.gz".
std::vector<fs::path> rank_files(const fs::path& folder, const char* ending) {
  std::vector<fs::path> files;
  // The command may have removed it.
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("rank-") && name.ends_with(ending)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

/// Writes what stands for each Python and launcher of PATH where a command replaces PYTHONPATH.
void write_programs(const fs::path& folder, const char* text) {
  fs::create_directories(folder);
  std::vector<std::string> names{"python", "python3", "torchrun", "accelerate", "deepspeed", "composer"};
  for (int minor = 8; minor < 20; ++minor) names.push_back(fmt::format("python3.{}", minor));
  for (const std::string& name : names) {
    if (launch::find_program(name).empty()) continue;
    write_file_atomically(folder / name, text);
    fs::permissions(folder / name, fs::perms::owner_all);
  }
}

/// Tells how a rank ended, and adds its last steps, by its last words (last_words.py): the rank's own file
/// knows nothing of an exit code, nor of an end by os._exit() or by a signal.
void complete(const fs::path& file, const fs::path& recorder) {
  const std::string words = (recorder / file.stem()).string();
  Json rank = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (!rank.is_object() || !fs::exists(words + ".exit")) return;
  const std::string code_text = read_file(words + ".exit"), steps = read_file(words + ".steps");
  const std::string ended = rank.value("ended", "");
  const int code = code_text.empty() ? -1 : static_cast<uint8_t>(code_text.back());
  if (ended != "running" && (ended != "finished" || code == 0)) return;
  const auto status = launch::process_status(rank.value("pid", int64_t{0}));
  // A command may leave a rank behind.
  if (code < 0 && !status.empty() && status.front() != "Z" && rank.value("host", "") == host_name()) return;
  const bool interrupted = rank["interrupted_at"].is_number() && code != 0;
  rank["ended"] = interrupted                      ? "interrupted"
                  : code > 0                       ? fmt::format("exit code {}", code)
                  : ended == "running" && code < 0 ? "killed"
                                                   : "finished";
  if (interrupted) rank["ended_at"] = rank["interrupted_at"];
  if (!rank["ended_at"].is_number()) {
    const auto seen = std::chrono::file_clock::to_sys(fs::last_write_time(words + ".steps"));
    rank["ended_at"] = std::chrono::duration<double>(seen.time_since_epoch()).count();
  }
  if (const size_t count = steps.size() / sizeof(double); count > rank["step_end_s"].size()) {
    std::vector<double> ends(count);
    std::memcpy(ends.data(), steps.data(), count * sizeof(double));
    rank["step_end_s"] = ends;
  }
  write_file_atomically(file, rank.dump());
}

/// Whether it is a trace, or nothing that this user's training has written.
bool is_other(const fs::path& file) {
  struct ::stat facts {};
  const bool own =
      ::lstat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == ::geteuid();
  return !own || file.filename().string().find(".trace.") != std::string::npos;
}

fs::path make_kept_folder(const std::string& keep, bool force) {
  std::error_code failed;
  const bool is_new = fs::create_directories(keep, failed);
  // Closed to others, so that the recorder has room in it.
  if (is_new)
    fs::permissions(keep, fs::perms::group_write | fs::perms::others_write, fs::perm_options::remove);
  if (failed) {
    throw ConfigError(fmt::format("--keep '{}' cannot be made: {}", keep, failed.message()),
                      "Give a folder that can be written.");
  }
  fs::path folder = fs::canonical(keep);
  std::vector<fs::path> old = rank_files(folder, ".json");
  if (!old.empty() && !force) {
    throw ConfigError(fmt::format("--keep '{}' holds a recording already, which would be lost", keep),
                      "Choose another folder, or add --force to replace it.");
  }
  std::ranges::copy(rank_files(folder, ".json.gz"), std::back_inserter(old));
  for (const fs::path& file : old) {
    if (!fs::remove(file, failed) && failed)
      throw ConfigError(fmt::format("--keep: '{}' cannot be removed: {}", file.string(), failed.message()),
                        "Choose another folder.");
  }
  return folder;
}

constexpr const char* kPrivateName = "lockstep-recording";
constexpr const char* kRecorderName = ".recorder";

/// Where nobody else can put code that the training would run.
fs::path make_recorder(const fs::path& folder) {
  const std::string reason = why_not_mine_alone(folder);
  if (reason.empty()) return make_private_folder(kRecorderName, folder);
  fs::path apart = make_private_folder("lockstep-recorder");
  print_note(fmt::format("{}: the recorder is in {}, which other hosts do not see", reason, apart.string()));
  return apart;
}

std::string options_text(const fs::path& folder, const fs::path& shared, const RecorderOptions& options) {
  // PyTorch writes traces by name, through any link.
  const bool alone = shared.parent_path() == folder;
  nlohmann::json text = {{"folder", folder.string()},
                         {"shared", shared.string()},
                         {"traces", (alone ? folder : shared).string()},
                         {"steps", nullptr},
                         {"max_trace", options.max_trace_bytes},
                         {"command", options.command}};
  if (options.steps) text["steps"] = {options.steps->first, options.steps->second};
  return text.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

RecordingFolder::RecordingFolder(const std::string& keep, bool force, const RecorderOptions& options)
    : kept_(!keep.empty()),
      made_(kept_ && !fs::exists(keep)),
      folder_(keep.empty() ? make_private_folder(kPrivateName) : make_kept_folder(keep, force)),
      // Ranks that end with a killed parent still write.
      recorder_(make_recorder(folder_), std::chrono::milliseconds(2500),
                made_ || !kept_ ? folder_ : fs::path()) {
  try {
    const fs::path package = recorder() / "lockstep_recorder";
    fs::create_directories(package);
    for (const auto& [name, text] : recorder_files()) {
      const bool is_first = std::string_view(name) == "sitecustomize.py";
      write_file_atomically((is_first ? recorder() : package) / name, text);
      if (std::string_view(name) == "program.sh") write_programs(programs(), text);
    }
    write_file_atomically(recorder() / "options.json", options_text(folder_, recorder(), options));
  } catch (const std::exception& error) {
    throw ConfigError(
        fmt::format("nothing can be recorded in '{}': {}", folder_.string(), trouble_of(error).what),
        "Give a folder that can be written: --keep FOLDER, or TMPDIR.");
  }
}

RecordingFolder::~RecordingFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(folder_, ignored);
}

void RecordingFolder::finish() const {
  for (const fs::path& file : ranks()) complete(file, recorder());
  if (recorder().parent_path() == folder_) return;
  // Killed ranks did not compress theirs. Fails where anything has the name.
  for (const fs::path& trace : rank_files(recorder(), ".trace.json"))
    fs::copy_file(trace, folder_ / trace.filename());
}

void note_leftovers() {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(temporary_folder(), ignored)) {
    const fs::path& folder = entry.path();
    if (!folder.filename().string().starts_with(kPrivateName) || !why_not_mine_alone(folder).empty())
      continue;
    const auto is_recorder = [](const fs::directory_entry& each) {
      return each.path().filename().string().starts_with(kRecorderName);
    };
    const bool lives = std::ranges::any_of(fs::directory_iterator(folder, ignored), is_recorder);
    if (!lives && !rank_files(folder, ".json").empty())
      print_note(
          fmt::format("an earlier recording was left: lockstep import {0}, or rm -r {0}", folder.string()));
  }
}

std::vector<fs::path> RecordingFolder::ranks() const {
  std::vector<fs::path> files = rank_files(folder_, ".json");
  std::erase_if(files, is_other);
  return files;
}

}  // namespace lockstep::cli
