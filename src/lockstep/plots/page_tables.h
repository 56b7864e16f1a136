#pragma once

#include <string>

#include "lockstep/plots/sources.h"

namespace lockstep::plots {

/// Tables of a report as HTML; empty where there is nothing to put in.

/// A row for each run: rate with its interval, speed-up, efficiency, percentiles, memory.
std::string results_table(const Sources& sources);
/// A row for each run with a breakdown.
std::string phases_table(const Sources& sources);
/// A row for each run whose efficiency is split into factors.
std::string factors_table(const Sources& sources);
/// The published rows as they are, with the speed-up that follows from them.
std::string published_table(const PublishedTable& table);
/// What a record was measured with: versions, machines, command.
std::string circumstances(const NamedRecord& record);

}  // namespace lockstep::plots
