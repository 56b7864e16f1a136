#pragma once

#include <span>
#include <vector>

namespace lockstep::measure {

/// Throws Error, with the step and the value, for a time that is not a number, infinite or negative. Zero
/// passes: a coarse clock gives it.
void require_step_times(std::span<const double> step_s);

/// The natural logarithm of each, with times below a nanosecond taken as one.
std::vector<double> logarithms(std::span<const double> step_s);
double logarithm(double step_s);

}  // namespace lockstep::measure
