#pragma once

#include <string>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// A header row, then one row per run; units in the names, an empty field for what is missing, quoting as RFC
/// 4180, lines end with "\n". The samples are not in it.
std::string to_csv(const RunRecord& record);

}  // namespace lockstep::results
