#pragma once

#include <string>

#include <CLI/App.hpp>

namespace lockstep::cli {

struct TopoOptions {
  /// A recorded system; empty: this machine.
  std::string from;
  /// Where to write it as JSON instead; "-" for stdout, empty: tables.
  std::string json;
  bool markdown = false;
};

void add_topo_flags(CLI::App& command, TopoOptions& options);

/// Prints what a machine looks like. Returns the exit code.
int run_topo(const TopoOptions& options);

}  // namespace lockstep::cli
