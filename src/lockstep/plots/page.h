#pragma once

#include <string>

#include "lockstep/plots/chart.h"

namespace lockstep::plots {

/// A self-contained HTML page: no script, no request to anywhere. Readable on a phone, in print and in dark
/// mode. Sections without data say how to get it.
std::string report_page(const Sources& sources);

}  // namespace lockstep::plots
