#pragma once

#include <filesystem>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// The JSON file of a run that is still going on: FILE.partial, a whole valid record after every row, so that
/// a run which dies loses nothing; FILE appears only when all is measured. Used by one thread.
class PartialFile {
 public:
  /// `path`: FILE. Where FILE is no regular file (/dev/stdout) no partial one is kept. Nothing is written
  /// yet.
  explicit PartialFile(std::filesystem::path path);

  /// Rewrites FILE.partial; the record in it says that the run has not ended, unless record.incomplete says
  /// why. Throws Error when it cannot be written.
  void update(const RunRecord& record);

  /// Writes FILE and removes FILE.partial. For complete records, and for incomplete ones that are to be kept
  /// as FILE.
  void finish(const RunRecord& record);

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& partial_path() const { return partial_path_; }

 private:
  std::filesystem::path path_;
  /// Empty: none is kept.
  std::filesystem::path partial_path_;
};

}  // namespace lockstep::results
