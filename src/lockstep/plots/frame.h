#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/plots/canvas.h"
#include "lockstep/plots/chart.h"
#include "lockstep/results/record/breakdown.h"

namespace lockstep::plots {

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
