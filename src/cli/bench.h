#pragma once

#include <string>
#include <vector>

#include "bench_options.h"

namespace lockstep::cli {

/// `lockstep bench`: checks everything that can be checked, then starts the ranks and supervises them, or, in
/// a process that a launcher or a lockstep parent started, is one of the ranks. Returns the exit code.
int run_bench(BenchOptions options, const std::vector<std::string>& command);

}  // namespace lockstep::cli
