#pragma once

#include <string>

#include "lockstep/results/tables/diff.h"
#include "lockstep/results/tables/document.h"

namespace lockstep::results {

/// The comparison for a reader: how each file was measured, entries that differ first and marked; a table per
/// network and setting with a row per number of ranks; the basis of the verdicts; rows that only one file
/// has; and how many rows changed. At most 100 columns wide on a terminal.
Document diff_tables(const Diff& diff);

}  // namespace lockstep::results
