#pragma once

#include <filesystem>
#include <string>

#include "lockstep/results/files/partial_file.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/render.h"

namespace lockstep::cli {

/// Prints how a record was measured: versions, machines, warnings.
void print_header(const results::RunRecord& record, const results::RenderOptions& how);

/// Prints a record: its header, unless that was printed before, its tables and its closing words.
void print_record(const results::RunRecord& record, const results::RenderOptions& how, bool with_header);

struct ResultFiles {
  /// The user's --json, or without one a file in a private folder, removed at the end.
  std::filesystem::path record_path;
  std::string json_path;
  std::string csv_path;
  results::RenderOptions how;
  /// record_path holds launches before this one.
  bool continues = false;
  /// Launches before the last only leave the record for the next one.
  bool last_launch = true;
};

/// Puts out the results of one bench: tables on stdout, the files that the user asked for, and after every
/// row a partial record on disk. So a run that dies keeps what was measured, whichever of its processes
/// survives.
class ResultKeeper {
 public:
  explicit ResultKeeper(const ResultFiles& files);

  /// Makes the private folder where there is no --json, and gives a partial record that an earlier run left
  /// another name, so that it does not pass as this run's; a run that continues it keeps it. Call once,
  /// before the ranks start. Throws ConfigError where no folder can be made.
  void prepare();

  /// Call after every row. Throws Error when the disk is full.
  void row_finished(const results::RunRecord& record);

  /// Prints the tables and writes the files when all was measured; before the last launch writes the record
  /// only.
  void finish(const results::RunRecord& record);

  /// The run ended early: reads the record that row_finished left (possibly in another process), marks it
  /// incomplete with `reason`, prints its tables and writes the files. Says so if nothing was measured yet.
  void finish_incomplete(const std::string& reason);

 private:
  void write_files(const results::RunRecord& record);
  void drop_temporary();

  results::PartialFile file_;
  ResultFiles files_;
};

/// The record's path in a private folder, for a bench without --json; the same in all of this user's
/// processes that pass the same `job`.
std::filesystem::path temporary_record_path(const std::string& job);

}  // namespace lockstep::cli
