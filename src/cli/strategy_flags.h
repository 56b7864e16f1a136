#pragma once

#include <vector>

#include <CLI/App.hpp>

#include "lockstep/strategies/strategy_options.h"

namespace lockstep::cli {

/// Adds every flag that concerns strategies but --bucket-mb; what is given is appended to `given`, unchecked.
void add_strategy_flags(CLI::App& command, std::vector<strategies::GivenOption>& given);

}  // namespace lockstep::cli
