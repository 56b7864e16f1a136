#pragma once

#include <vector>

#include "lockstep/limit/limit.h"

namespace lockstep::limit {

/// What one layer takes, direction by direction.
std::vector<PartLimit> measure_parts(const kernels::Layer& layer, const LimitOptions& options);

}  // namespace lockstep::limit
