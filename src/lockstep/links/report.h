#pragma once

#include <string>
#include <vector>

#include "lockstep/links/record.h"
#include "lockstep/plots/frame.h"
#include "lockstep/results/tables/document.h"

namespace lockstep::links {

/// The rate or the latency that flows of one kind have as a rule: of all, the best quarter's worst. 0 for
/// none.
double usual_gbit_per_s(const Record& record, const std::string& kind);
double usual_latency_s(const Record& record, const std::string& kind);

/// Faults of the network between the hosts, a sentence each: hosts, ranks or pairs far below the
/// others, in all rounds but one; latencies likewise; a faster interface that leads to the same host
/// and is idle. Flows within a host are not judged: which cores they have decides over those.
std::vector<std::string> findings(const Record& record);

/// The part of findings() about idle interfaces; rounds are not needed for it.
std::vector<std::string> idle_interfaces(const Record& record);

/// Sentences about neighbors that lose by sending at once, no fault by itself.
std::vector<std::string> shared_links(const Record& record);

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
