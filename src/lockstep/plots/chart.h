#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/registry.h"
#include "lockstep/plots/sources.h"

namespace lockstep::plots {

/// The room that a chart is drawn for, in pixels at which its text is 13 px high. A page draws each chart for
/// a wide and for a narrow window, since a drawing that shrinks with the window shrinks its text.
struct ChartForm {
  double width = 640;
  /// Starts every id in the drawing; letters, digits and '-'.
  std::string id = "chart";
  bool narrow() const { return width < 480; }
};

inline constexpr double kWideChart = 640;
inline constexpr double kNarrowChart = 356;

/// One drawing, or why there is none.
struct Chart {
  std::string title;
  /// What it shows in a sentence or two, with its main numbers: for those who do not see it.
  std::string description;
  /// SVG elements.
  std::string markup;
  double width = 0;
  double height = 0;
  /// What was left out or is to be known when reading it; for the caption.
  std::vector<std::string> notes;
  /// Why nothing was drawn; empty for a drawing.
  std::string missing;
  /// What to do about that.
  std::string advice;

  bool drawn() const { return missing.empty(); }
};

Chart missing_chart(std::string title, std::string reason, std::string advice);

using DrawChart = Chart (*)(const Sources&, const ChartForm&);

/// "speedup", "throughput", "phases", "distribution", "series", "buckets", "memory". Every one of them draws
/// any sources without an exception: what cannot be drawn is a chart with `missing`.
const Registry<DrawChart>& charts();

/// The chart as <svg> for a page: no colours of its own background, no heading (the page has them).
std::string inline_svg(const Chart& chart, const ChartForm& form);

/// The chart as a file of its own: heading, notes, background, colours for light and dark.
std::string standalone_svg(const Chart& chart, const ChartForm& form);

}  // namespace lockstep::plots
