#pragma once

#include <string>
#include <vector>

#include "cli/program.h"

namespace lockstep::test {

/// Runs a command of lockstep that starts no processes, "lockstep" first, in this process: loading LibTorch
/// would take most of its time. It sees no GPU.
Finished run_here(const std::vector<std::string>& command);

}  // namespace lockstep::test
