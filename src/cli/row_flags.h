#pragma once

#include <string>

#include <CLI/App.hpp>

#include "lockstep/train/rows/sweep.h"

namespace lockstep::cli {

// What `bench` and `train` say with the same flags, and what `verify` says too.

inline constexpr const char* kKernelsHelp =
    "aten or fused: LibTorch's operations, or oneDNN's and own ones in the layouts that suit them "
    "[fused, where this build has it]";

/// --accumulate, --image-size, --memory-format, --seed.
void add_step_flags(CLI::App& command, train::SweepOptions& sweep, const std::string& group);

/// --data, --prefetch, --input-workers, --address.
void add_input_flags(CLI::App& command, train::SweepOptions& sweep, const std::string& group);

/// --momentum, --weight-decay.
void add_optimizer_flags(CLI::App& command, train::SweepOptions& sweep, const std::string& group);

}  // namespace lockstep::cli
