#pragma once

#include <string>

#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/tables.h"

#include "bench_options.h"
#include "kept_record.h"

namespace lockstep::cli {

/// Prints how a record was measured: versions, machines, warnings.
void print_header(const results::RunRecord& record, const results::RenderOptions& how);

/// Prints a record: its header, unless that was printed before, its tables, `more` and its closing words.
void print_record(const results::RunRecord& record, results::RenderOptions how, bool with_header,
                  const results::Document& more = {});

/// Gives a partial record that an earlier run left another name, so that it neither passes as this run's nor
/// is lost, and makes the record of this run. Call once, before the ranks start.
KeptRecord prepare_record(const BenchOptions& options);

// The results of one launch of a bench: tables on stdout, and the files that the user asked for. The tables
// come first, from memory, and a file that cannot be written keeps no other from being written; its trouble
// is thrown at the end, as Error.

/// All was measured. Prints the tables and writes the files; before the last launch, keeps the record for the
/// next one. An earlier result in the file of --json is kept as FILE.old. `trace`: for --trace; empty: there
/// is none.
void finish_results(const BenchPlan& plan, const KeptRecord& kept, const results::RunRecord& record,
                    const std::string& trace);

/// The run ended early: reads the record that rank 0 has kept, marks it and its unfinished row with
/// `reason`, prints its tables and writes it to its file. Replaces no file of an earlier run. Prints a note
/// if nothing was measured yet.
void finish_incomplete(const BenchPlan& plan, const KeptRecord& kept, const std::string& reason);

}  // namespace lockstep::cli
