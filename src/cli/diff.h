#pragma once

#include <string>

#include <CLI/App.hpp>

namespace lockstep::cli {

struct DiffCommandOptions {
  std::string base;
  std::string test;
  std::string threshold = "2%";
  std::string fail_on;
  std::string percentile = "p75";
  bool paired = false;
  bool markdown = false;
};

void add_diff_flags(CLI::App& command, DiffCommandOptions& options);

/// Prints the comparison. Returns kExitRegression under --fail-on regression when there is one; throws
/// ConfigError when --fail-on could not have found any.
int run_diff(const DiffCommandOptions& options);

}  // namespace lockstep::cli
