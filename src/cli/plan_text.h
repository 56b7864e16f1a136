#pragma once

#include <string>

#include "bench_plan.h"

namespace lockstep::cli {

/// The rows of a plan with the memory and the time that each is expected to take, for --dry-run. Trains every
/// network of the plan for a few steps.
std::string plan_text(const BenchPlan& plan);

}  // namespace lockstep::cli
