#pragma once

#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/document.h"

namespace lockstep::results {

/// Sentences about a recorded run: how it scales and where a step goes, then each cause with what to do, then
/// what the record cannot say.
std::vector<std::string> recorded_sentences(const RunRecord& record, const Run& run);

/// How each recorded run of the record was recorded: by what, ranks, steps that were left out, the window's
/// cost, process groups, and what is missing or was assumed.
Document recorded_remarks(const RunRecord& record);

}  // namespace lockstep::results
