#pragma once

#include <string>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// A header row, then one row per run, without lists such as the samples; units in the names, empty fields
/// for missing values, quoting as RFC 4180, lines end with "\n".
std::string to_csv(const RunRecord& record);

}  // namespace lockstep::results
