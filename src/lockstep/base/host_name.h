#pragma once

#include <string>

namespace lockstep {

/// Name of this host as the system has it; empty where the system has none.
std::string host_name();

}  // namespace lockstep
