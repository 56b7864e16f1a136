#pragma once

#include <filesystem>
#include <string>

#include "lockstep/results/files/partial_file.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/render.h"

#include "bench_options.h"

namespace lockstep::cli {

/// Prints how a record was measured: versions, machines, warnings.
void print_header(const results::RunRecord& record, const results::RenderOptions& how);

/// Prints a record: its header, unless that was printed before, its tables and its closing words.
void print_record(const results::RunRecord& record, results::RenderOptions how, bool with_header);

/// Puts out the results of one launch of a bench: tables on stdout, and the files that the user asked for. A
/// run that ends early keeps its measurements, whichever of its processes survives (LiveRecord), and replaces
/// no file of an earlier run.
class ResultKeeper {
 public:
  /// `place`: of the record while rows are measured; empty: none is kept, or it is not known. `plan` outlives
  /// this.
  ResultKeeper(const BenchPlan& plan, const std::filesystem::path& place);

  /// Makes the private folder where there is no --json, gives a partial record that an earlier run left
  /// another name, so that it neither passes as this run's nor is lost, and returns the place for this run's.
  /// Call once, before the ranks start. Throws ConfigError where no folder can be made.
  std::filesystem::path prepare() const;

  const results::PartialFile& file() const { return file_; }

  /// Prints the tables and writes the files when all was measured; before the last launch writes the record
  /// only.
  void finish(const results::RunRecord& record) const;

  /// The run ended early: reads the record from its place, where rank 0 left it, marks it and its unfinished
  /// row with `reason`, prints its tables and writes it back. Prints a note if nothing was measured yet.
  void finish_incomplete(const std::string& reason) const;

 private:
  /// Whether the record's place is a private folder of this run.
  bool keeps_privately() const;
  /// Prints the place of an incomplete record, and which file of an earlier run is still there.
  void print_place() const;
  void drop_temporary() const;

  results::PartialFile file_;
  const BenchPlan& plan_;
};

/// The record's path in a private folder, for a bench without --json; the same in all of this user's
/// processes that pass the same `job`.
std::filesystem::path temporary_record_path(const std::string& job);

}  // namespace lockstep::cli
