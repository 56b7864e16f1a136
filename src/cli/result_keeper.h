#pragma once

#include <filesystem>
#include <string>

#include "lockstep/results/files/partial_file.h"
#include "lockstep/results/tables/render.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::cli {

struct ResultFiles {
  /// The user's --json, or a file in the temporary folder when there is none (it is not kept then).
  std::filesystem::path record_path;
  std::string json_path;
  std::string csv_path;
  results::RenderOptions how;
  /// record_path holds launches before this one.
  bool continues = false;
  /// Launches before the last only leave the record to the next one.
  bool last_launch = true;
};

/// Where the results of one bench go: tables on stdout, the files that the user asked for, and after every
/// row a partial record on disk, so that a run which dies keeps what was measured, whoever of the processes
/// survives.
class ResultKeeper {
 public:
  explicit ResultKeeper(const ResultFiles& files);

  /// After every row. Throws Error when the disk is full.
  void row_finished(const results::RunRecord& record);

  /// All was measured: prints the tables and writes the files; before the last launch only the record.
  void finish(const results::RunRecord& record);

  /// The run ended early: reads what row_finished left (possibly in another process), marks it incomplete
  /// with `reason`, prints its tables and writes the files. Says so when nothing was measured yet.
  void finish_incomplete(const std::string& reason);

 private:
  void write_files(const results::RunRecord& record);
  void drop_temporary();

  results::PartialFile file_;
  ResultFiles files_;
};

/// A record path in the temporary folder for a bench without --json; the same in all processes of this user
/// that pass the same `job`.
std::filesystem::path temporary_record_path(const std::string& job);

}  // namespace lockstep::cli
