#pragma once

#include <memory>

#include "lockstep/inputs/dataset.h"

namespace lockstep::inputs {

// The input `dataset` where InputOptions::described says what a batch consists of (dataset.h).

/// Throws ConfigError where the folder lacks one of the tensors or has it in another type or shape, where
/// these differ in their number of samples, or where there are too few for one step.
std::unique_ptr<Input> create_stored_input(const InputOptions& options);

/// Opens the files once. Throws like create_stored_input.
DatasetFacts look_at_stored(const InputOptions& options);

}  // namespace lockstep::inputs
