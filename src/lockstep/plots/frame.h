#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/registry.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/record/recorded.h"
#include "lockstep/results/tables/row_tables.h"

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

class Canvas;
/// The chart with the marks of `canvas`, as wide as its form and `height` high.
Chart drawn(Chart chart, const Canvas& canvas, const ChartForm& form, double height);

/// The chart as <svg> for a page, which provides heading and background.
std::string inline_svg(const Chart& chart, const ChartForm& form);

/// The chart as an SVG file with heading, notes, background, and colours for light and dark mode.
std::string standalone_svg(const Chart& chart, const ChartForm& form);

/// Every colour of the drawings, by purpose. The hues are those of Okabe and Ito (2008), which remain
/// distinct under the common kinds of colour blindness; markers, dashes and hatching repeat the distinction
/// without colour.
enum class Colour {
  kInk,
  kMuted,
  kGrid,
  kAxis,
  kSurface,
  kShade,
  kBlue,
  kVermillion,
  kGreen,
  kPurple,
  kOrange,
  kSky,
  kGrey,
  kOnBlue,
  kOnBright,
  kNone,
};

/// ` fill="#0072b2" class="f-blue"` and the like: presentation attributes hold the light colours, so that
/// every SVG reader draws them, and a browser in dark mode overrides them through the class.
std::string paint(Colour fill, Colour stroke = Colour::kNone);

/// The style rules for dark mode, for a page as for a single drawing.
std::string dark_mode_css();

enum class Marker { kCircle, kSquare, kTriangle, kDiamond, kTriangleDown, kCross, kPlus, kNone };

/// Colour, marker and dash of a curve.
struct LineStyle {
  Colour colour = Colour::kBlue;
  Marker marker = Marker::kCircle;
  /// stroke-dasharray; empty: solid.
  std::string dash;
  bool hollow = false;
  double width = 2.25;
};

inline constexpr size_t kHueCount = 7;

/// A style by its place among the hues, markers and dashes (0: solid), each of which is used in turn.
LineStyle line_style(size_t hue, size_t marker, size_t dash);

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

enum class Anchor { kStart, kMiddle, kEnd };

struct TextLook {
  Colour colour = Colour::kInk;
  Anchor anchor = Anchor::kStart;
  double size = kTextSize;
  bool bold = false;
};

/// The marks of one drawing as SVG elements. Later marks lie above earlier ones. All foreign text is escaped
/// here.
class Canvas {
 public:
  /// `id` is the prefix of every id in the drawing, so that one page can hold several drawings.
  explicit Canvas(std::string id) : id_(std::move(id)) {}

  void line(Point from, Point to, Colour colour, double width = 1, std::string_view dash = "");
  /// A line through the points; nothing for fewer than two.
  void polyline(const std::vector<Point>& points, const LineStyle& style);
  void polygon(const std::vector<Point>& points, Colour fill, double opacity = 1);
  void rect(const Box& box, Colour fill, double opacity = 1, double radius = 0,
            std::string_view tooltip = "");
  /// Stripes over a box in the colour of the surface, like slashes (`rising`) or like backslashes.
  void hatch(const Box& box, bool rising);
  void marker(Point at, const LineStyle& style, double size = 4.5, std::string_view tooltip = "");
  /// `y` is the base line.
  void text(Point at, std::string_view text, const TextLook& look = {});
  /// Text in lines of at most `width` (lines_of()); `at` is of the first. Returns their height.
  double paragraph(Point at, std::string_view text, double width, const TextLook& look = {});
  /// A range from `low_y` up to `high_y` (which is the smaller one) with a cap on both ends, or an arrow on
  /// an end that reaches further than is drawn.
  void whisker(double x, double low_y, double high_y, Colour colour, bool low_goes_on = false,
               bool high_goes_on = false);

  /// The marks, preceded by the definitions that they refer to.
  std::string markup() const;

 private:
  std::string id_;
  std::string marks_;
  bool rising_ = false;
  bool falling_ = false;
};

struct Tick {
  double value = 0;
  std::string label;
};

/// Maps values to coordinates. Built from a finite range; a range of one value, or an empty one, is widened,
/// so that every scale can draw.
class Scale {
 public:
  /// From a round number at or below `low` to one at or beyond `high`, with about `ticks` ticks.
  static Scale linear(double low, double high, int ticks);
  /// From exactly `low` to exactly `high`, with ticks at round numbers between.
  static Scale linear_exactly(double low, double high, int ticks);
  /// Ticks at powers of two. `low` must be positive.
  static Scale log2(double low, double high);
  /// Ticks at 1, 2 and 5 times powers of ten (or at the powers alone where those are many).
  static Scale log10(double low, double high);
  /// Logarithmic axis of sizes in bytes: ticks at powers of 16, "4 KiB", "64 KiB".
  static Scale bytes(double low, double high);
  /// Logarithmic axis whose ticks are the given values (numbers of ranks).
  static Scale log_at(std::vector<double> values);

  /// Sets the coordinates of the ends of the range; `from` may be larger than `to` (y axes).
  void place(double from, double to) { from_ = from, to_ = to; }

  double operator()(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  const std::vector<Tick>& ticks() const { return ticks_; }
  /// The ticks, some without their label, so that labels are at least `gap` apart on the drawing.
  /// `horizontal`: along an x axis.
  std::vector<Tick> spaced_ticks(double gap, bool horizontal) const;

 private:
  Scale(double low, double high, bool logarithmic) : low_(low), high_(high), logarithmic_(logarithmic) {}

  double low_;
  double high_;
  bool logarithmic_;
  double from_ = 0;
  double to_ = 1;
  std::vector<Tick> ticks_;
};

/// A label of the legend and the sample before it.
struct LegendEntry {
  enum class Sample { kLine, kBand, kSwatch, kRising, kFalling };
  std::string label;
  LineStyle style;
  Sample sample = Sample::kLine;
};

/// The legend, the two axes with ticks, grid and titles around a plot of points over an x axis.
class XyFrame {
 public:
  struct Layout {
    std::string x_title;
    std::string y_title;
    std::vector<LegendEntry> legend;
    double plot_height = 290;
    /// Free room at both ends of the x axis, for markers at its ends.
    double x_margin = 0;
    /// Upper edge of the frame, for several frames in one drawing.
    double top = 0;
    /// Draw vertical grid lines as well.
    bool vertical_grid = true;
  };

  /// Draws everything that the data will cover.
  XyFrame(Canvas& canvas, const ChartForm& form, const Layout& layout, Scale x, Scale y);

  Point at(double x, double y) const { return {x_(x), y_(y)}; }
  /// Whether a value lies on the y axis; at() puts one that does not at its nearest end.
  bool shows(double y) const { return y >= y_.low() && y <= y_.high(); }
  const Box& plot() const { return plot_; }
  /// Bottom edge of everything, titles included.
  double bottom() const { return bottom_; }

 private:
  Scale x_;
  Scale y_;
  Box plot_;
  double bottom_ = 0;
};

/// The legend, an x axis, and labelled rows below one another: bars, boxes, timelines.
class RowFrame {
 public:
  struct Row {
    std::string label;
    double height = 26;
    /// Rows of a new group stand below its name; empty: there are no groups.
    std::string group = {};
  };
  struct Layout {
    std::string x_title;
    std::vector<LegendEntry> legend;
    std::vector<Row> rows;
    /// Free room at the right end of each row, for a number.
    double right = 12;
    double gap = 8;
    /// Upper edge of the frame, for several frames in one drawing.
    double top = 0;
  };

  RowFrame(Canvas& canvas, const ChartForm& form, const Layout& layout, Scale x);

  double x(double value) const { return x_(value); }
  /// The box of a row, from one end of the axis to the other.
  const Box& row(size_t index) const { return boxes_[index]; }
  double bottom() const { return bottom_; }

 private:
  Scale x_;
  std::vector<Box> boxes_;
  double bottom_ = 0;
};

/// A phase of a step, and its look in every chart.
struct PhaseLook {
  std::string_view name;
  double results::PhaseTimes::*seconds;
  Colour fill;
  LegendEntry::Sample sample;
  /// Colour of text on the fill.
  Colour text;
};

/// In the order of a step.
const std::array<PhaseLook, 7>& phase_looks();

/// Phases that take any time in one of `means`.
std::vector<const PhaseLook*> phases_in(const std::vector<const results::PhaseTimes*>& means);

LegendEntry legend_entry(const PhaseLook& look);

/// A box of a phase: filled, and hatched where it is communication.
void draw_phase(Canvas& canvas, const Box& box, const PhaseLook& look, std::string_view tooltip);

}  // namespace lockstep::plots
