#include "recording_folder.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host_name.h"

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

void RecordingFolder::remove_recorder() const {
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
