#pragma once

#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

/// The number of batches that `device` makes; step s gets batch s modulo this. The same for every batch size
/// and every number of ranks, since it decides which values a step sees. Their memory is 3 % of what resnet50
/// keeps for its backward pass.
constexpr int64_t kDeviceBatches = 4;

/// Random batches made once, in memory, and used in turn: normal images, uniform labels.
std::unique_ptr<Input> create_device_input(const InputOptions& options);

}  // namespace lockstep::inputs
