#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace lockstep::cli {

struct PlotOptions {
  std::vector<std::string> runs;
  std::vector<std::string> published;
  /// A name of plots::charts().
  std::string chart;
  double width = 640;
  std::string output;
};

void add_plot_flags(CLI::App& command, PlotOptions& options);

/// Writes one chart as SVG. Returns the exit code; throws Error where the files do not have what the chart
/// shows.
int run_plot(const PlotOptions& options);

}  // namespace lockstep::cli
