#pragma once

#include <optional>

#include "bench_rank.h"
#include "flags.h"

namespace lockstep::cli {

/// The plan of `lockstep bench` with these arguments ("lockstep", "bench", flags), for a command that starts
/// it. Empty where they asked for help, which is printed. Throws as bench does for what cannot be measured.
std::optional<BenchPlan> plan_bench(const Arguments& arguments);

/// Throws where a plan cannot run here, for want of a backend or of memory; prints what is left out of it,
/// and warnings.
void check_start(const BenchPlan& plan);

}  // namespace lockstep::cli
