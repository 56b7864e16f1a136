#pragma once

#include <string>

#include <CLI/App.hpp>

namespace lockstep::cli {

struct InfoOptions {
  /// "", or what `lockstep info --help` names: "devices", "backends", ...
  std::string topic;
};

void add_info_flags(CLI::App& command, InfoOptions& options);

/// Prints what is installed and what can be measured. Returns the exit code.
int run_info(const InfoOptions& options);

}  // namespace lockstep::cli
