#pragma once

#include <filesystem>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// The JSON file of a run from its first steps on, a valid record at any time, so that a run which dies loses
/// nothing. Where FILE was not there before, that is FILE itself; where it was, FILE
/// stays as it is until all is measured, and the record is in FILE.partial. Not thread-safe.
class PartialFile {
 public:
  /// The place of the record of a run that is about to begin and is to end in `path`: `path` itself, or where
  /// it holds something already, `path`.partial. Empty where `path` is no regular file (/dev/stdout), beside
  /// which no other can be kept.
  static std::filesystem::path place_for(const std::filesystem::path& path);
  /// `path`.partial.
  static std::filesystem::path beside(const std::filesystem::path& path);

  /// `path`: FILE. `place`: of its record while the run goes on, by place_for() at its begin; empty: none is
  /// kept. Nothing is written yet.
  PartialFile(std::filesystem::path path, std::filesystem::path place);

  /// Rewrites the record in its place, marked as not ended, unless record.incomplete has a reason. Throws
  /// Error when it cannot be written.
  void update(const RunRecord& record) const;

  /// Writes a complete record to FILE, and leaves nothing else.
  void finish(const RunRecord& record) const;

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& place() const { return place_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path place_;
};

}  // namespace lockstep::results
