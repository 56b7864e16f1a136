#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace lockstep::cli {

struct ReportOptions {
  std::vector<std::string> runs;
  std::vector<std::string> published;
  std::string output;
};

void add_report_flags(CLI::App& command, ReportOptions& options);

/// Writes the page. Returns the exit code.
int run_report(const ReportOptions& options);

}  // namespace lockstep::cli
