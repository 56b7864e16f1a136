#pragma once

#include <string>

#include "lockstep/plots/sources.h"

namespace lockstep::plots {

/// One HTML page that holds everything it shows: no script, no request to anywhere. Readable on a phone, in
/// print and in dark mode. Sections for which the sources have nothing say what would fill them.
std::string report_page(const Sources& sources);

}  // namespace lockstep::plots
