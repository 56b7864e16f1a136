#pragma once

#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

// Random 8-bit images and random labels, new in every step, by (seed, sample) alone: feed::RandomBatches.
// Leaving batches out costs nothing.

/// Made one step ahead, by InputOptions::workers threads together (1 where it is 0).
std::unique_ptr<Input> create_host_input(const InputOptions& options);

/// Made by InputOptions::workers threads (1 where it is 0), each a batch at a time, into a queue of
/// InputOptions::prefetch batches.
std::unique_ptr<Input> create_queue_input(const InputOptions& options);

}  // namespace lockstep::inputs
