#pragma once

#include <string>
#include <vector>

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

}  // namespace lockstep::plots
