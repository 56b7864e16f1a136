#pragma once

#include <string>

#include "lockstep/results/tables/diff.h"
#include "lockstep/results/tables/text_table.h"

namespace lockstep::results {

/// The comparison for a reader: what the two files say of themselves, entries that differ first and marked; a
/// table per network and setting with a row per number of ranks; what the verdicts rest on; rows that only
/// one file has; and how many rows changed. At most 100 columns wide.
std::string diff_text(const Diff& diff, TextForm form = TextForm::kTerminal);

}  // namespace lockstep::results
