#pragma once

#include <string>

#include <CLI/App.hpp>

#include "lockstep/results/tables/render.h"

namespace lockstep::cli {

struct ShowOptions {
  std::string file;
  results::RenderOptions how;
  /// Where to write the rows as CSV instead; "-" for stdout, empty: tables.
  std::string csv;
};

void add_show_flags(CLI::App& command, ShowOptions& options);

/// Prints the tables of a saved result. Returns the exit code.
int run_show(const ShowOptions& options);

}  // namespace lockstep::cli
