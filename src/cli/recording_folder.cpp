#include "recording_folder.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/launch/child_process.h"

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

bool is_trace(const fs::path& file) {
  return file.filename().string().find(".trace.") != std::string::npos;
}

fs::path make_kept_folder(const std::string& keep, bool force) {
  std::error_code failed;
  fs::create_directories(keep, failed);
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
  for (const fs::path& file : old) fs::remove(file);
  return folder;
}

std::string options_text(const fs::path& folder, const fs::path& shared, const RecorderOptions& options) {
  nlohmann::json text = {{"folder", folder.string()},
                         {"shared", shared.string()},
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
      folder_(keep.empty() ? make_private_folder("lockstep-recording") : make_kept_folder(keep, force)),
      // Each host of a job may have a recorder of its own in one folder.
      recorder_(folder_ / fmt::format(".recorder-{}-{}", host_name(), ::getpid())) {
  try {
    const fs::path package = recorder_ / "lockstep_recorder";
    fs::create_directories(package);
    for (const auto& [name, text] : recorder_files()) {
      const bool is_first = std::string_view(name) == "sitecustomize.py";
      write_file_atomically((is_first ? recorder_ : package) / name, text);
      if (std::string_view(name) == "program.sh") write_programs(programs(), text);
    }
    write_file_atomically(recorder_ / "options.json", options_text(folder_, recorder_, options));
  } catch (const std::exception& error) {
    remove_all();
    throw ConfigError(fmt::format("nothing can be recorded in '{}': {}", folder_.string(), error.what()),
                      "Give a folder that can be written: --keep FOLDER, or TMPDIR.");
  }
}

RecordingFolder::~RecordingFolder() {
  remove_all();
}

void RecordingFolder::finish() const {
  for (const fs::path& file : ranks()) complete(file, recorder_);
  std::error_code ignored;
  fs::remove_all(recorder_, ignored);
}

void RecordingFolder::remove_all() const {
  std::error_code ignored;
  fs::remove_all(kept_ ? recorder_ : folder_, ignored);
  // Fails unless nothing was recorded.
  if (made_) fs::remove(folder_, ignored);
}

std::vector<fs::path> RecordingFolder::ranks() const {
  std::vector<fs::path> files = rank_files(folder_, ".json");
  std::erase_if(files, is_trace);
  return files;
}

}  // namespace lockstep::cli
