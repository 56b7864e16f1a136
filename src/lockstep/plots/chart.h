#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/registry.h"
#include "lockstep/results/tables/labels.h"

namespace lockstep::plots {

using results::NamedRecord;
using results::Sources;

/// Width of a chart on a page. A page scales it to its windows: at 390 pixels text is 10 pixels high, in the
/// columns of a wide window 15.
inline constexpr double kChartWidth = 460;
/// The least width that holds legends and axes.
inline constexpr double kNarrowestChart = 356;

/// Width of a chart in its own pixels, in which its text is 13 high.
struct ChartForm {
  double width = kChartWidth;
  /// Prefix of every id in the drawing; letters, digits and '-'.
  std::string id = "chart";
  /// Ticks that an axis across the drawing has room for.
  int ticks() const { return static_cast<int>(width / 75); }
};

class Canvas;

/// A drawing, or the reason why there is none.
struct Chart {
  std::string title;
  /// Content in a sentence or two with the main numbers, for screen readers.
  std::string description;
  /// SVG elements.
  std::string markup;
  double width = 0;
  double height = 0;
  /// Caption: rows left out, and how to read the chart.
  std::vector<std::string> notes;
  /// Reason why nothing was drawn; empty for a drawing.
  std::string missing;
  /// Way to get the missing data.
  std::string advice;

  bool drawn() const { return missing.empty(); }
};

Chart missing_chart(std::string title, std::string reason, std::string advice);

using DrawChart = Chart (*)(const Sources&, const ChartForm&);

/// "speedup", "throughput", "setting", "phases", "distribution", "series", "buckets", "memory", "loss",
/// "accuracy". None of them throws, whatever the sources are: a chart that cannot be drawn has `missing` set.
const Registry<DrawChart>& charts();

/// Speed-up over ranks, both on log2 axes, with the line of perfect scaling.
Chart speedup_chart(const Sources& sources, const ChartForm& form);
/// Rate of the job over ranks, with intervals.
Chart throughput_chart(const Sources& sources, const ChartForm& form);
/// Rate of the job over the setting that was swept.
Chart setting_chart(const Sources& sources, const ChartForm& form);
/// A bar for each run with a breakdown, divided into the phases of a step.
Chart phases_chart(const Sources& sources, const ChartForm& form);
/// Distribution of the step times, a row for each run.
Chart distribution_chart(const Sources& sources, const ChartForm& form);
/// Step times in the order in which the steps ran, warm-up and its end included.
Chart series_chart(const Sources& sources, const ChartForm& form);
/// Timeline of the buckets of a step for each rank: ready, waiting for others, in transfer.
Chart buckets_chart(const Sources& sources, const ChartForm& form);
/// Peak memory of the ranks of each run.
Chart memory_chart(const Sources& sources, const ChartForm& form);
/// Loss and accuracy of trainings over epochs.
Chart loss_chart(const Sources& sources, const ChartForm& form);
Chart accuracy_chart(const Sources& sources, const ChartForm& form);

/// The chart with the marks of `canvas`, as wide as its form and `height` high.
Chart drawn(Chart chart, const Canvas& canvas, const ChartForm& form, double height);

/// The chart as <svg> for a page, which provides heading and background.
std::string inline_svg(const Chart& chart, const ChartForm& form);

/// The chart as an SVG file with heading, notes, background, and colours for light and dark mode.
std::string standalone_svg(const Chart& chart, const ChartForm& form);

}  // namespace lockstep::plots
