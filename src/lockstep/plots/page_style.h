#pragma once

#include <string>

namespace lockstep::plots {

/// The style sheet of a report.
std::string page_style();

}  // namespace lockstep::plots
