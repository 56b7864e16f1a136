#pragma once

#include <vector>

#include "lockstep/measure/phases.h"

namespace lockstep::measure {

/// The same times in order, without overlaps; gaps of at most `gap_s` are closed.
std::vector<Stretch> merged(std::vector<Stretch> stretches, double gap_s = 0);

/// Times of `stretches` that are in none of `others`; both as merged() returns them.
std::vector<Stretch> without(const std::vector<Stretch>& stretches, const std::vector<Stretch>& others);

/// Parts of `stretches`, as merged() returns them, between `begin_s` and `end_s`.
std::vector<Stretch> within(const std::vector<Stretch>& stretches, double begin_s, double end_s);

/// Sum of the lengths.
double total_s(const std::vector<Stretch>& stretches);

}  // namespace lockstep::measure
