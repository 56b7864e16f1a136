#pragma once

#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/document.h"

namespace lockstep::results {

/// One circumstance of a measurement: "Processor" and its name.
struct Fact {
  std::string name;
  std::string value;
  /// Lines below the value whose columns must stay as they are. Empty: none.
  std::string lines = {};
};

/// Versions, machines, ranks and how they were pinned, command and time. Facts that the record lacks are left
/// out. Of a job on many machines the first `most_machines` are described.
std::vector<Fact> facts_of(const RunRecord& record, size_t most_machines = SIZE_MAX);

/// The facts of a record as a list for a terminal, and its warnings, each with its advice. Ends with a
/// newline.
std::string header_text(const RunRecord& record, const TextForm& form = {});

/// "aten, fused (oneDNN 3.2.0, avx512_core)"; empty where the record does not say.
std::string kernels_text(const RunRecord& record);

/// A warning and its advice, wrapped; a loud one between two lines that are hard to miss, unless colors do.
std::string warning_text(const Warning& warning, const TextForm& form = {});

/// Warnings of the whole record. Warnings of several launches that differ in their figures only become one,
/// with the number of launches.
std::vector<Warning> warnings_of_record(const RunRecord& record);

/// Warnings of the record's rows. Warnings with the same advice become one: the text of the first row, the
/// names of some others, and in how many launches.
std::vector<Warning> warnings_of_rows(const RunRecord& record);

/// Warnings of the record and of its rows, and the reason why it is incomplete, for a terminal; empty
/// where there are none.
std::string closing_text(const RunRecord& record, const TextForm& form = {});

}  // namespace lockstep::results
