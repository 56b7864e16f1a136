#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/registry.h"
#include "lockstep/plots/sources.h"

namespace lockstep::plots {

/// Width of a chart in pixels; its text is 13 px high. A page draws each chart for a wide and for a narrow
/// window, because scaling a drawing down would scale its text down.
struct ChartForm {
  double width = 640;
  /// Prefix of every id in the drawing; letters, digits and '-'.
  std::string id = "chart";
  bool narrow() const { return width < 480; }
};

inline constexpr double kWideChart = 640;
inline constexpr double kNarrowChart = 356;

/// A drawing, or the reason why there is none.
struct Chart {
  std::string title;
  /// Content in a sentence or two with the main numbers, for screen readers.
  std::string description;
  /// SVG elements.
  std::string markup;
  double width = 0;
  double height = 0;
  /// Caption: what was left out, and how to read the chart.
  std::vector<std::string> notes;
  /// Reason why nothing was drawn; empty for a drawing.
  std::string missing;
  /// Way to get the missing data.
  std::string advice;

  bool drawn() const { return missing.empty(); }
};

Chart missing_chart(std::string title, std::string reason, std::string advice);

using DrawChart = Chart (*)(const Sources&, const ChartForm&);

/// "speedup", "throughput", "networks", "phases", "distribution", "series", "buckets", "memory". None of them
/// throws, whatever the sources are: a chart that cannot be drawn has `missing` set.
const Registry<DrawChart>& charts();

/// The chart as <svg> for a page, which provides heading and background.
std::string inline_svg(const Chart& chart, const ChartForm& form);

/// The chart as an SVG file with heading, notes, background, and colours for light and dark mode.
std::string standalone_svg(const Chart& chart, const ChartForm& form);

}  // namespace lockstep::plots
