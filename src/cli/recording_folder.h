#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flags.h"

namespace lockstep::cli {

/// Settings of the recorder in each process.
struct RecorderOptions {
  /// First step of the profiler's window and one past the last; empty: after warm-up.
  std::optional<std::pair<int64_t, int64_t>> steps;
  /// The most of one rank's trace, before compression.
  int64_t max_trace_bytes = 0;
  Arguments command;
};

/// The folder of a recording of somebody's training, and in it, as long as this lives, the recorder that the
/// training's processes import.
class RecordingFolder {
 public:
  /// `keep`: --keep; empty: a private folder. Throws ConfigError where it cannot be made or written, and
  /// where it holds an earlier recording, unless `force`, which removes that.
  RecordingFolder(const std::string& keep, bool force, const RecorderOptions& options);
  ~RecordingFolder();
  RecordingFolder(const RecordingFolder&) = delete;
  RecordingFolder& operator=(const RecordingFolder&) = delete;

  /// Once the training has ended: completes the files of ranks that ended without a word, and removes the
  /// recorder.
  void finish() const;
  /// Lets a private folder stay.
  void keep() { kept_ = true; }
  bool kept() const { return kept_; }
  const std::filesystem::path& path() const { return folder_; }
  /// First on PYTHONPATH.
  const std::filesystem::path& recorder() const { return recorder_; }
  /// First on PATH.
  std::filesystem::path programs() const { return recorder_ / "programs"; }
  /// Files of the ranks that were recorded.
  std::vector<std::filesystem::path> ranks() const;

 private:
  /// Removes all that is not to stay.
  void remove_all() const;

  bool kept_;
  /// Whether the folder of --keep was not there before.
  bool made_;
  std::filesystem::path folder_;
  std::filesystem::path recorder_;
};

}  // namespace lockstep::cli
