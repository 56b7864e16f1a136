#pragma once

#include <string>

#include "lockstep/links/record.h"
#include "lockstep/plots/chart.h"
#include "lockstep/results/tables/document.h"

namespace lockstep::links {

/// A sentence, warnings, and matrices of rates and latencies, which fit 80 columns for 16 ranks; for more,
/// the worst pairs.
results::Document tables(const Record& record);

/// Hosts with their sockets and devices below one another; ranks at their right, and an arc for each pair,
/// in a color that tells how it compares to the others. At most the 120 worst pairs.
plots::Chart drawing(const Record& record, const plots::ChartForm& form);

/// The same of a machine of which nothing was measured.
plots::Chart drawing(const topology::System& system, const plots::ChartForm& form);

/// A page of the drawing and the tables.
std::string page(const Record& record);

}  // namespace lockstep::links
