#pragma once

#include "lockstep/pickle/reader.h"

namespace lockstep::pickle {

/// Throws Error where a value contains itself, or is more than kMostLevels deep: a walk through it would not
/// come to an end, or run out of stack.
void check_levels(const Value& root);

}  // namespace lockstep::pickle
