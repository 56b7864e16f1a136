#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/launch/guarded_folder.h"

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

/// Notes the recordings that a `record` without --keep left in TMPDIR when it was killed.
void note_leftovers();

/// The folder of a recording of somebody's training, and as long as this lives the recorder that the
/// training's processes import: in the folder where that is this user's alone, else in a private one, which
/// other hosts do not see.
class RecordingFolder {
 public:
  /// `keep`: --keep; empty: a private folder. Throws ConfigError where it cannot be made or written, and
  /// where it holds an earlier recording, unless `force`, which removes that.
  RecordingFolder(const std::string& keep, bool force, const RecorderOptions& options);
  ~RecordingFolder();
  RecordingFolder(const RecordingFolder&) = delete;
  RecordingFolder& operator=(const RecordingFolder&) = delete;

  /// Once the training has ended: completes the files of ranks that ended without a word.
  void finish() const;
  /// Lets a private folder stay.
  void keep() { kept_ = true; }
  bool kept() const { return kept_; }
  const std::filesystem::path& path() const { return folder_; }
  /// First on PYTHONPATH.
  const std::filesystem::path& recorder() const { return recorder_.path(); }
  /// First on PATH.
  std::filesystem::path programs() const { return recorder() / "programs"; }
  /// Files of the ranks that were recorded.
  std::vector<std::filesystem::path> ranks() const;

 private:
  bool kept_;
  /// Whether the folder of --keep was not there before.
  bool made_;
  std::filesystem::path folder_;
  launch::GuardedFolder recorder_;
};

}  // namespace lockstep::cli
